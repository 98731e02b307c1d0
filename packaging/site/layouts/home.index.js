{{- /* One entry for each section of each page: title, heading, link and text. */ -}}
{{- $all := slice -}}
{{- range where site.Pages "RawContent" "ne" "" -}}
  {{- $title := partial "title.html" . -}}
  {{- $link := strings.TrimPrefix "/" .RelPermalink -}}
  {{- range $i, $part := split (replaceRE "(?m)^```[a-z]*$" "" .RawContent) "\n##" -}}
    {{- $heading := "" -}}
    {{- $anchor := "" -}}
    {{- if $i -}}
      {{- $heading = index (split $part "\n") 0 | strings.TrimLeft "# " -}}
      {{- $anchor = printf "#%s" (anchorize (replaceRE "[`*]" "" $heading)) -}}
    {{- end -}}
    {{- $text := replaceRE "\\]\\([^)]*\\)|[|*#`\\[\\]]|-{3,}" " " $part -}}
    {{- $all = $all | append (dict "title" $title "heading" $heading "link" (printf "%s%s" $link $anchor) "text" (replaceRE `\s+` " " $text)) -}}
  {{- end -}}
{{- end -}}
window.searchIndex = {{ $all | jsonify }}
