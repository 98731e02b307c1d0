package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// maxRendered is the number of bytes of a text that a fault shows.
const maxRendered = 60

// render writes a value as TOML, shortened. Tables and other values without a short form are empty.
func render(value any) string {
	if s, ok := value.(fmt.Stringer); ok {
		return quote(s.String())
	}
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.String:
		return quote(v.String())
	case reflect.Slice:
		return renderList(v)
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint8, reflect.Uint16:
		return fmt.Sprint(value)
	case reflect.Float64:
		return renderFloat(v.Float())
	default:
		return ""
	}
}

// renderFloat writes a float so that it does not look like an integer: it adds a point if needed.
func renderFloat(f float64) string {
	text := strings.ToLower(strconv.FormatFloat(f, 'g', -1, 64))
	if strings.ContainsAny(text, ".en") { // also in inf and nan
		return strings.TrimPrefix(text, "+")
	}
	return text + ".0"
}

// renderList does not descend into nested lists, so that deep nesting in a file costs nothing.
func renderList(list reflect.Value) string {
	var b strings.Builder
	for i := range list.Len() {
		if b.Len() > maxRendered {
			b.WriteString(", ...")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		element := list.Index(i).Interface()
		switch reflect.ValueOf(element).Kind() {
		case reflect.Map:
			return ""
		case reflect.Slice:
			b.WriteString("[...]")
		default:
			b.WriteString(render(element))
		}
	}
	return "[" + b.String() + "]"
}

func quote(text string) string {
	if len(text) > maxRendered {
		text = strings.ToValidUTF8(text[:maxRendered], "") + "..."
	}
	return strconv.Quote(text)
}

// isZero reports whether a value is missing or the zero value of its type.
func isZero(value any) bool {
	v := reflect.ValueOf(value)
	return !v.IsValid() || v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0
}

// either joins quoted alternatives as a sentence does: "a", "b" or "c".
func either(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = strconv.Quote(word)
	}
	return enumerate(quoted)
}

// enumerate joins words as a sentence does: a, b or c.
func enumerate(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
