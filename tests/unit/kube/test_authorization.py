# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Who a connection says it is, over time: token files that change, plugins whose credentials end, tokens of OpenID Connect."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import CredentialsInvalid
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube import authorization as authorization_module
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.authorization import TOKEN_FILE_SECONDS, Authorization
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.chosen import Chosen
from tests.testing.rows import in_one_test, one_test

CANARY = "canary-0b7d"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def authorization(user: Mapping[str, Any], clock: Clock | None = None) -> Authorization:
    return Authorization(Chosen("x", {"server": "https://10.0.0.1"}, user), "c1", clock=clock or Clock())


def refused(user: Mapping[str, Any]) -> CredentialsInvalid:
    with pytest.raises(CredentialsInvalid) as caught:
        authorization(user).headers()
    assert CANARY not in str(caught.value) and caught.value.cluster == "c1"
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return caught.value


def bearer(token: str) -> list[tuple[str, str]]:
    return [("authorization", f"Bearer {token}")]


def test_a_token_file_counts_before_the_token_and_is_read_anew(tmp_path: Path) -> None:
    file, clock = tmp_path / "token", Clock()
    file.write_text("first\n", encoding="utf-8")
    found = authorization({"token": "fixed", "tokenFile": str(file)}, clock)
    assert found.headers() == bearer("first")
    file.write_text("second", encoding="utf-8")
    clock.now = TOKEN_FILE_SECONDS - 1
    assert found.headers() == bearer("first")
    clock.now = TOKEN_FILE_SECONDS
    assert found.headers() == bearer("second")
    file.unlink()
    clock.now *= 2
    assert found.headers() == bearer("second"), "what was read before counts where the file is gone"


def test_a_token_file_that_was_never_there_leaves_the_token_or_is_named(tmp_path: Path) -> None:
    assert authorization({"token": "fixed", "tokenFile": str(tmp_path / "none")}).headers() == bearer("fixed")
    assert "The file that tokenFile of the kubeconfig names cannot be read" in refused({"tokenFile": str(tmp_path / CANARY)}).message


@one_test("content", "", "\n", " \t\r\n")
def test_a_token_file_with_nothing_in_it_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(content, encoding="utf-8")
    assert refused({"tokenFile": str(tmp_path / "token")}).message == "The tokenFile of the kubeconfig is empty."


@in_one_test
@pytest.mark.parametrize("value", [f"{CANARY}\n", f"{CANARY}\r\nx: y", f"{CANARY}\x00", f"{CANARY}\x7f", f"{CANARY}\ud800"])
@pytest.mark.parametrize(
    "user", [lambda v: {"token": v}, lambda v: {"as": v, "token": "t"}, lambda v: {"as": "x", "as-groups": ["y", v], "token": "t"}]
)
def test_what_no_header_can_have_is_refused_and_not_quoted(value: str, user: Any) -> None:
    assert "a line break or another character that cannot be sent" in refused(user(value)).message


def test_impersonation_stands_beside_any_credentials() -> None:
    another = {"as": "sam", "as-uid": "7", "as-groups": ["x", "y"], "as-user-extra": {"a/b": ["1", "2"], "Scopes": ["s"]}}
    wanted = [
        *(("impersonate-user", "sam"), ("impersonate-uid", "7"), ("impersonate-group", "x"), ("impersonate-group", "y")),
        *(("impersonate-extra-a%2fb", "1"), ("impersonate-extra-a%2fb", "2"), ("impersonate-extra-scopes", "s")),
    ]
    for user, own in (({}, []), ({"token": "t"}, bearer("t")), ({"username": "a", "password": "b"}, [("authorization", "Basic YTpi")])):
        assert [(name.lower(), value) for name, value in authorization({**user, **another}).headers()] == own + wanted


def test_a_password_without_a_username_is_nothing() -> None:
    assert authorization({"password": "x"}).headers() == [] and authorization({"password": "x"}).is_anonymous


def id_token(seconds: float) -> str:
    claims = json.dumps({"exp": time.time() + seconds}).encode()
    return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.{CANARY}"


def oidc(**config: str) -> dict[str, Any]:
    settings = {"idp-issuer-url": "https://127.0.0.1:1", "client-id": "x", **config}
    return {"auth-provider": {"name": "oidc", "config": {key.replace("_", "-"): value for key, value in settings.items()}}}


def test_an_id_token_counts_until_shortly_before_its_end() -> None:
    token = id_token(60)
    assert authorization(oidc(id_token=token)).headers() == bearer(token)
    assert refused(oidc(id_token=id_token(5))).message.endswith("has an id-token that has expired, and no refresh-token.")


@one_test(
    "config says",
    ({}, "has neither an id-token nor a refresh-token."),
    ({"client_id": ""}, "has no client-id."),
    ({"idp_issuer_url": ""}, "has no idp-issuer-url."),
    ({"id_token": CANARY}, "has an id-token that is no JSON Web Token with an end."),
    ({"id_token": f"a.{CANARY}.b"}, "has an id-token that is no JSON Web Token with an end."),
    ({"id_token": "a.W10.b"}, "has an id-token that is no JSON Web Token with an end."),
    ({"id_token": "a.eyJleHAiOiAiSW5maW5pdHkifQ.b"}, "has an id-token that is no JSON Web Token with an end."),
    ({"id_token": id_token(-5), "refresh_token": CANARY}, "has an id-token that cannot be renewed."),
)
def test_a_login_that_cannot_be_used_says_why(config: dict[str, str], says: str) -> None:
    error = refused(oidc(**config))
    assert error.message == f"The auth-provider oidc of the kubeconfig {says}"
    assert error.remedy in ("Log in again.", "Correct the auth-provider of the kubeconfig.")


def test_an_identity_provider_that_is_silent_holds_a_request_for_some_seconds_and_the_next_one_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it takes connections, and says nothing
        user = oidc(idp_issuer_url=f"https://127.0.0.1:{silent.getsockname()[1]}", id_token=id_token(-5), refresh_token=CANARY)
        made = authorization(user)
        monkeypatch.setattr(authorization_module, "RENEWAL_SECONDS", 0.3)
        for _ in range(2):
            with pytest.raises(CredentialsInvalid, match=r"was not renewed within 0\.3 s") as caught:
                made.headers()
            assert CANARY not in str(caught.value)
        assert sum(thread.name == "renewal of an id-token" for thread in threading.enumerate()) == 1
