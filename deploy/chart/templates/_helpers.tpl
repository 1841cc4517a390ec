{{- define "rye.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "rye.labels" -}}
app.kubernetes.io/name: rye-node
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "rye.secret" -}}
{{- ternary (printf "%s-trial" (include "rye.name" .)) .Values.secret .Values.trial.enabled -}}
{{- end }}

{{/* What each process of a cluster is told: settings, where keys lie, credentials. */}}
{{- define "rye.environ" -}}
- {name: RYE_NODE_QUEUE, value: cluster}
- {name: RYE_NODE_STORE, value: {{ .Values.store.url | quote }}}
{{- if .Values.trial.enabled }}
- {name: RYE_NODE_STORE_ENDPOINT, value: "http://{{ include "rye.name" . }}-s3:7070"}
{{- else if .Values.store.endpoint }}
- {name: RYE_NODE_STORE_ENDPOINT, value: {{ .Values.store.endpoint | quote }}}
{{- end }}
{{- with .Values.store.region }}
- {name: RYE_NODE_STORE_REGION, value: {{ . | quote }}}
{{- end }}
{{- if .Values.keys.claim }}
- {name: SIGNING_KEY_DIR, value: /opt/rye/keys/signing}
- {name: NODE_CONFIG_DIR, value: /opt/rye/keys/config}
{{- else }}
- {name: SIGNING_KEY_DIR, value: /opt/rye/keys}
{{- end }}
- {name: RYE_NODE_SHUTDOWN_TIMEOUT_S, value: {{ .Values.shutdownTimeoutSeconds | quote }}}
- {name: RYE_NODE_METRICS, value: {{ .Values.metrics }}}
- {name: RYE_NODE_LOG_FORMAT, value: json}
{{- with .Values.bootstrap.publicKey }}
- {name: BOOTSTRAP_PUBLIC_KEY, value: {{ . | quote }}}
- {name: BOOTSTRAP_LABEL, value: {{ $.Values.bootstrap.label | quote }}}
{{- end }}
{{- range $name, $value := .Values.settings }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}

{{/* The part of a pod that servers and workers share. */}}
{{- define "rye.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ add .Values.shutdownTimeoutSeconds 20 }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- end }}

{{- define "rye.container" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
envFrom: [{secretRef: {name: {{ include "rye.secret" . }}}}]
ports: [{name: http, containerPort: 8000}]
# The tables of a new version may take their time at the first start.
startupProbe: {httpGet: {path: /live, port: http}, periodSeconds: 2, failureThreshold: 150}
livenessProbe: {httpGet: {path: /live, port: http}, periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6}
readinessProbe: {httpGet: {path: /ready, port: http}, periodSeconds: 5, timeoutSeconds: 4}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: data, mountPath: /data}
  - {name: tmp, mountPath: /tmp}
  - {name: keys, mountPath: /opt/rye/keys, readOnly: {{ not .Values.keys.claim }}}
{{- end }}

{{/* The keys of the node: what `rye-node.pyz keys export` writes, as the files that it was made of. */}}
{{- define "rye.keys" -}}
{{- if .Values.keys.claim }}
- {name: keys, persistentVolumeClaim: {claimName: {{ .Values.keys.claim }}}}
{{- else }}
- name: keys
  secret:
    secretName: {{ .Values.keys.secret }}
    defaultMode: 0400
    items:
      - {key: private_key.pem, path: private_key.pem}
      - {key: box_key.pem, path: box_key.pem}
      - {key: previous.json, path: previous.json}
      - {key: created_at, path: created_at}
      - {key: items.private_key.pem, path: items/private_key.pem}
      - {key: receipts.private_key.pem, path: receipts/private_key.pem}
      - {key: registry.private_key.pem, path: registry/private_key.pem}
{{- end }}
{{- end }}
