package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

// TestSchemaIsCurrent compares schema.json with the keys and the manual. "make reference" writes it.
func TestSchemaIsCurrent(t *testing.T) {
	const file = "schema.json"
	want := string(written(readFile(t, manual)))
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if Schema != want || readFile(t, file) != want {
		t.Errorf("%s is not current: make reference", file)
	}
}

// TestSchema accepts the manual, with its defaults written out, and every example; it refuses files with faults. Each
// key has a description.
func TestSchema(t *testing.T) {
	var schema node
	if err := json.Unmarshal([]byte(Schema), &schema); err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Glob("../../examples/*.toml")
	if err != nil || len(examples) == 0 {
		t.Fatal("no examples", err)
	}
	good := []string{readFile(t, manual), commented.ReplaceAllString(readFile(t, manual), "$1")}
	for _, path := range examples {
		good = append(good, readFile(t, path))
	}
	for _, text := range good {
		if faults := judge(t, schema, text); len(faults) > 0 {
			t.Errorf("%q in\n%.200s", faults, text)
		}
	}
	for _, c := range []struct{ text, fault string }{
		{"[limits]\nhandshake_timeout = 5", ".limits.handshake_timeout"},
		{"[limits]\nhandshake_timeout = \"5\"", ".limits.handshake_timeout"},
		{"[limits]\nsession = 5", ".limits.session"},
		{"[[listener]]\nprotocols = [\"minecraft\"]", ".listener.protocols"},
		{"[[upstream]]\nbalance = \"best\"", ".upstream.balance"},
		{"[[upstream]]\nservers = [{addr = \"10.0.0.5:1\"}]", ".upstream.servers"},
		{"[raknet]\nmax_mtu = 9000", ".raknet.max_mtu"},
		{"listener = \"public\"", ".listener"},
	} {
		if faults := judge(t, schema, c.text); !slices.Equal(faults, []string{c.fault}) {
			t.Errorf("%s: faults %q, want %s", c.text, faults, c.fault)
		}
	}
	describedBy(t, "", schema)
}

// describedBy reports keys without a description.
func describedBy(t *testing.T, path string, schema map[string]any) {
	t.Helper()
	keys, _ := schema["properties"].(map[string]any)
	for name, of := range keys {
		of := of.(map[string]any)
		items, _ := of["items"].(map[string]any)
		if of["description"] == nil && of["properties"] == nil && items["properties"] == nil {
			t.Errorf("%s.%s has no description", path, name)
		}
		describedBy(t, path+"."+name, of)
		describedBy(t, path+"."+name, items)
	}
}

// judge returns the paths of the values of a text that a schema refuses. It knows the words that Schema uses.
func judge(t *testing.T, schema node, text string) (faults []string) {
	t.Helper()
	var value map[string]any
	if err := toml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return refused("", schema, value)
}

func refused(path string, schema map[string]any, value any) (faults []string) {
	if _, ok := schema["$ref"]; ok { // to the table of a protocol, whose keys have been judged
		if _, ok := value.(map[string]any); !ok {
			return []string{path}
		}
		return nil
	}
	if options, ok := schema["anyOf"].([]any); ok {
		if slices.ContainsFunc(options, func(o any) bool { return refused(path, o.(map[string]any), value) == nil }) {
			return nil
		}
		return []string{path}
	}
	bad := []string{path}
	switch value := value.(type) {
	case map[string]any:
		keys, _ := schema["properties"].(map[string]any)
		for name, v := range value {
			of, ok := keys[name].(map[string]any)
			if !ok {
				of, ok = schema["additionalProperties"].(map[string]any)
			}
			if !ok {
				return append(faults, path+"."+name)
			}
			faults = append(faults, refused(path+"."+name, of, v)...)
		}
		return faults
	case []any:
		if schema["type"] != "array" {
			return bad
		}
		for _, v := range value {
			faults = append(faults, refused(path, schema["items"].(map[string]any), v)...)
		}
		return faults
	case string:
		words, limited := schema["enum"].([]any)
		pattern, _ := schema["pattern"].(string)
		if schema["type"] != "string" || limited && !slices.Contains(words, any(value)) ||
			!regexp.MustCompile(pattern).MatchString(value) {
			return bad
		}
	case int64:
		low, lowest := schema["minimum"].(float64)
		high, highest := schema["maximum"].(float64)
		if schema["type"] != "integer" || lowest && float64(value) < low || highest && float64(value) > high {
			return bad
		}
	case bool:
		if schema["type"] != "boolean" {
			return bad
		}
	default:
		return []string{path + fmt.Sprintf(" is a %T", value)}
	}
	return nil
}
