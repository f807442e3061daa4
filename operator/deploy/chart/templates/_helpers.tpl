{{- /*
Copyright: Contributors to the edge_portal.cilium_mesh project
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- define "mesh-operator.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "mesh-operator.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "mesh-operator.labels" -}}
{{ include "mesh-operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "mesh-operator.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "mesh-operator.name" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- define "mesh-operator.ports" -}}
{{- range .Values.networkPolicy.ports }}
- port: {{ .port }}
  {{- with .endPort }}
  endPort: {{ . }}
  {{- end }}
  protocol: TCP
{{- end }}
{{- end -}}

{{- define "mesh-operator.mgmtNamespace" -}}
{{- if eq .Values.source "kubernetes" -}}
{{- .Values.mgmt.namespace | default .Release.Namespace -}}
{{- else -}}
{{- required "mgmt.namespace is missing: the namespace of the Clusters and of the Secrets with their kubeconfigs" .Values.mgmt.namespace -}}
{{- end -}}
{{- end -}}

{{- define "mesh-operator.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ printf "%s@%s" .repository .digest }}
{{- else -}}
{{ printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Folders of the kinds that tenants have, with a comma. */ -}}
{{- define "mesh-operator.kinds" -}}
{{- if eq .Values.profile "fleet" -}}
fleet-kinds
{{- else if or .Values.fleet.crds (eq .Values.profile "all") -}}
kinds,fleet-kinds
{{- else -}}
kinds
{{- end -}}
{{- end -}}
