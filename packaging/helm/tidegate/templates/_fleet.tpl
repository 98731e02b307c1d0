{{- define "tidegate.embedded" -}}{{ if and .Values.fleet.enabled (not .Values.fleet.servers) }}true{{ end }}{{- end }}
{{- define "tidegate.drain" -}}
{{ if and .Values.fleet.enabled .Values.fleet.follow .Values.fleet.drain.enabled }}true{{ end }}
{{- end }}
{{- define "tidegate.fleetSecret" -}}{{ .Values.fleet.existingSecret | default (include "tidegate.name" .) }}{{- end }}
{{- define "tidegate.fleetKey" -}}
{{ if not .Values.fleet.servers }}secret{{ else if .Values.fleet.nkey }}nkey{{ else }}creds{{ end }}
{{- end }}
{{- define "tidegate.fleet" -}}
{{- if .Values.fleet.enabled }}
[fleet]
name = {{ .Values.fleet.name | quote }}
limits = {{ .Values.fleet.limits }}
follow = {{ .Values.fleet.follow }}
{{- if .Values.fleet.tlsSecret }}
ca = "/etc/tidegate-fleet-tls/ca.crt"
certificate = "/etc/tidegate-fleet-tls/tls.crt"
key = "/etc/tidegate-fleet-tls/tls.key"
{{- end }}
{{- if .Values.fleet.servers }}
servers = {{ .Values.fleet.servers | toJson }}
replicas = {{ .Values.fleet.copies }}
{{- if .Values.fleet.existingSecret }}
credentials = "/etc/tidegate-fleet/{{ include "tidegate.fleetKey" . }}"
{{- end }}
{{- else }}
listen = "0.0.0.0:6222"
peers = [
{{- range until (int .Values.replicas) }}
  "{{ include "tidegate.name" $ }}-{{ . }}.{{ include "tidegate.name" $ }}-fleet.{{ $.Release.Namespace }}.svc:6222",
{{- end }}
]
replicas = {{ .Values.fleet.copies }}
secret = "file:/etc/tidegate-fleet/secret"
store = "/var/lib/tidegate/fleet"
{{- end }}
{{- end }}
{{- end }}
