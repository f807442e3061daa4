# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Fuzzing of every parser of foreign bytes: the list of parsers, mutations, a kept corpus, and two engines.

``make test`` replays the corpus and tries some mutations of it (tests/unit/fuzz); ``make fuzz`` goes on for as long as its caller says.
"""
