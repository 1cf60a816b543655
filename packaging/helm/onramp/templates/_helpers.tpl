{{- define "onramp.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end -}}
{{- end -}}

{{- define "onramp.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "onramp.name" .) -}}
{{- end -}}

{{- define "onramp.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- /* Labels by which pods are selected; `component` is agent or coordinator. */ -}}
{{- define "onramp.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "onramp.labels" -}}
{{ include "onramp.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "onramp.endpoint" -}}
{{ if contains ":" .address }}[{{ .address }}]{{ else }}{{ .address }}{{ end }}:{{ .port }}
{{- end -}}

{{- /* Where coordinators listen, as a list in JSON. */ -}}
{{- define "onramp.coordinators" -}}
{{- $nodes := .Values.coordinator.nodes -}}
{{- if and $nodes .Values.fleet.coordinators -}}
{{- fail "fleet.coordinators: is given beside coordinator.nodes: keep one of the two" -}}
{{- end -}}
{{- $all := .Values.fleet.coordinators -}}
{{- range $nodes -}}
{{- $all = append $all (include "onramp.endpoint" (dict "address" .address "port" $.Values.coordinator.port)) -}}
{{- end -}}
{{- if not $all -}}
{{- fail "coordinator.nodes: is empty: name the nodes that coordinators run on, or coordinators elsewhere in fleet.coordinators" -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}

{{- /* Keys as TOML, which has strings, numbers, booleans and lists as JSON has them; but for those that are told otherwise. */ -}}
{{- define "onramp.keys" -}}
{{- range $key, $value := .keys }}
{{- if has $key $.others }}
{{- fail (printf "%s.%s: is no key of this chart's: other values, or the chart itself, set it" $.at $key) }}
{{- end }}
{{ $key }} = {{ toJson $value }}
{{- end }}
{{- end -}}

{{- /* The configuration of the host with an address; what only agents read, with `agent`. */ -}}
{{- define "onramp.toml" -}}
{{- $values := .root.Values -}}
{{- if not $values.interfaces -}}
{{- fail "interfaces: is empty: name the interface that packets leave the nodes by, such as [eth0]" -}}
{{- end -}}
interfaces = {{ toJson $values.interfaces }}
{{- if .agent }}
{{- with $values.mode }}
mode = {{ toJson . }}
{{- end }}
{{- include "onramp.keys" (dict "at" "config" "keys" $values.config "others" (list "interface" "interfaces" "mode" "socket" "state_dir")) }}
{{- end }}

[fleet]
address = {{ toJson .address }}
coordinators = {{ include "onramp.coordinators" .root }}
{{- include "onramp.keys" (dict "at" "fleet.config" "keys" $values.fleet.config "others" (list "address" "aliases" "chrony" "coordinators" "folder" "labels" "listen")) }}
{{- if and .agent $values.gate }}

[gate]
{{- include "onramp.keys" (dict "at" "gate" "keys" $values.gate "others" list) }}
{{- end }}
{{- /* At the end, where onramp-join adds the node's. */ -}}
{{- if and .agent (or $values.labels $values.nodeLabels) }}

[fleet.labels]
{{- range $key, $value := $values.labels }}
{{- if has $key $values.nodeLabels }}
{{- fail (printf "nodeLabels: %s is given in labels, too: keep one of the two" $key) }}
{{- end }}
{{ toJson $key }} = {{ toJson $value }}
{{- end }}
{{- end }}
{{- end -}}
