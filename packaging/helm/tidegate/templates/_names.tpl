{{- define "tidegate.name" -}}{{ .Release.Name | trunc 50 }}-tidegate{{- end }}
{{- define "tidegate.selector" -}}
app.kubernetes.io/name: tidegate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "tidegate.labels" -}}
{{ include "tidegate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
{{- define "tidegate.token" -}}{{ required "admin.token must be set: probes and Prometheus bring it" .Values.admin.token }}{{- end }}
