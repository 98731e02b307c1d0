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
{{- define "tidegate.tokenSecret" -}}{{ .Values.admin.existingSecret | default (include "tidegate.name" .) }}{{- end }}
