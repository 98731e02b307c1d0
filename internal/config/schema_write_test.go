package config

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"

	"tidegate/internal/protocols"
	"tidegate/internal/registry"
	"tidegate/packaging/manual/sections"
)

// Patterns of values with a unit, for editors.
const (
	durationPattern = `^\+?(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d))+$`
	sizePattern     = `^[0-9]+(B|KiB|MiB|GiB)$`
)

// node is a part of a JSON schema.
type node map[string]any

// written returns the JSON schema of a configuration file, for editors. The manual is the text of config.example.toml:
// its comments become descriptions.
func written(manual string) []byte {
	root := schemaOfTable("", reflect.ValueOf(*Default()), remarks(manual))
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["title"] = "tidegate.toml"
	text, err := json.MarshalIndent(root, "", " ")
	if err != nil {
		panic(err) // a node holds only texts, numbers, lists and nodes
	}
	return append(text, '\n')
}

// schemaOfTable describes a table with its defaults.
func schemaOfTable(path string, table reflect.Value, about map[string]string) node {
	keys := make(node)
	for _, name := range keysOf(table.Type()) {
		value, ok := fieldOf(table, name)
		key := child(path, name)
		if !ok { // a table of a protocol, in place of the process's
			keys[name] = node{"$ref": "#/properties/" + name, "description": "In place of [" + name + "]."}
			continue
		}
		of := schemaOf(key, value, about)
		if text := about[key]; text != "" {
			of["description"] = text
		}
		if !holdsTables(value.Type()) && !unstated(value) && value.Kind() != reflect.Map {
			of["default"] = json.RawMessage(literal(value))
		}
		if field, ok := fieldNamed(table.Type(), name); ok {
			limit(of, value, field.Tag)
		}
		keys[name] = of
	}
	return node{"type": "object", "additionalProperties": false, "properties": keys}
}

// schemaOf describes the values of a key.
func schemaOf(key string, value reflect.Value, about map[string]string) node {
	t := value.Type()
	switch t {
	case serverType:
		return node{"anyOf": []node{{"type": "string"}, schemaOfTable(key, reflect.ValueOf(Server{Weight: 1}), about)}}
	case addressType, discoverType, sourceType, prefixType, ipType, rangeType:
		return node{"type": "string"}
	case durationType:
		return node{"type": "string", "pattern": durationPattern}
	case sizeType:
		return node{"type": "string", "pattern": sizePattern}
	case amountType:
		return node{"anyOf": []node{{"type": "integer"}, {"type": "string", "pattern": sizePattern}}}
	}
	if c, ok := reflect.Zero(t).Interface().(choice); ok {
		return node{"type": "string", "enum": c.Choices()}
	}
	switch t.Kind() {
	case reflect.Bool:
		return node{"type": "boolean"}
	case reflect.String:
		return schemaOfText(key)
	case reflect.Uint8:
		return node{"type": "integer", "minimum": 0, "maximum": math.MaxUint8}
	case reflect.Uint16:
		return node{"type": "integer", "minimum": 0, "maximum": math.MaxUint16}
	case reflect.Slice:
		element := reflect.New(t.Elem())
		setDefaults(element.Elem())
		if entry, ok := element.Interface().(owner); ok {
			entry.inherit(Default())
		}
		return node{"type": "array", "items": schemaOf(key, element.Elem(), about)}
	case reflect.Map:
		return node{"type": "object", "additionalProperties": schemaOf(key, reflect.Zero(t.Elem()), about)}
	case reflect.Struct:
		return schemaOfTable(key, value, about)
	}
	return node{"type": "integer"}
}

// schemaOfText describes a text. Protocols have known names; rtype-final has no client side, which only check knows.
func schemaOfText(key string) node {
	if !strings.HasSuffix(key, ".protocol") && !strings.HasSuffix(key, ".protocols") {
		return node{"type": "string"}
	}
	names := []string{"any", "nethernet"}
	for _, d := range protocols.All {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	return node{"type": "string", "enum": names}
}

// limit adds the bounds of a number that its field's tags have.
func limit(of node, value reflect.Value, tags reflect.StructTag) {
	low, high := tags.Get(registry.TagMin), tags.Get(registry.TagMax)
	if of["type"] != "integer" || high == "" {
		return
	}
	of["minimum"], of["maximum"] = whole(bound(value, low)), whole(bound(value, high))
}

// fieldNamed returns the field of a struct with a key of its own.
func fieldNamed(t reflect.Type, key string) (reflect.StructField, bool) {
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("toml") == key {
			return t.Field(i), true
		}
	}
	return reflect.StructField{}, false
}

// remarks returns the texts of a manual, each in one line, by the paths of tables and keys.
func remarks(manual string) map[string]string {
	found := make(map[string]string)
	inLine := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	for _, s := range sections.Read(manual) {
		found[s.Table()] = inLine(s.Text)
		for _, k := range s.Keys {
			found[child(s.Table(), k.Name)] = inLine(k.Text)
		}
	}
	return found
}
