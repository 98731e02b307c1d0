package admin

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// description is the part of openapi.json that the code can contradict.
type description struct {
	OpenAPI    string                          `json:"openapi"`
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	Summary    string `json:"summary"`
	Parameters []struct {
		Name   string `json:"name"`
		In     string `json:"in"`
		Schema schema `json:"schema"`
	} `json:"parameters"`
	RequestBody *content           `json:"requestBody"`
	Responses   map[string]content `json:"responses"`
}

type content struct {
	Content map[string]struct {
		Schema schema `json:"schema"`
	} `json:"content"`
}

// json returns the schema of a JSON body.
func (c *content) json() schema { return c.Content["application/json"].Schema }

// schema is the part of a schema that a Go type has too; descriptions are left out.
type schema struct {
	Ref        string            `json:"$ref,omitempty"`
	Type       string            `json:"type,omitempty"`
	Format     string            `json:"format,omitempty"`
	Enum       []string          `json:"enum,omitempty"`
	Properties map[string]schema `json:"properties,omitempty"`
	Required   []string          `json:"required,omitempty"`
	Items      *schema           `json:"items,omitempty"`
}

func described(t *testing.T) *description {
	t.Helper()
	d := new(description)
	if err := json.Unmarshal(openapi, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// resolve replaces references by the schemas.
func (d *description) resolve(s schema) schema {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		s = d.Components.Schemas[name]
	}
	s.Enum = nil // Go has no such type
	if s.Items != nil {
		items := d.resolve(*s.Items)
		s.Items = &items
	}
	if s.Properties != nil {
		resolved := make(map[string]schema)
		for name, property := range s.Properties {
			resolved[name] = d.resolve(property)
		}
		s.Properties = resolved
	}
	return s
}

// schemaOf returns the schema of a Go type as encoding/json writes it.
func schemaOf(t reflect.Type) schema {
	switch t.Kind() {
	case reflect.Bool:
		return schema{Type: "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return schema{Type: "integer"}
	case reflect.Float64:
		return schema{Type: "number"}
	case reflect.Map:
		return schema{Type: "object"}
	case reflect.Slice:
		items := schemaOf(t.Elem())
		return schema{Type: "array", Items: &items}
	case reflect.Struct:
		if t != reflect.TypeFor[time.Time]() {
			return objectOf(t)
		}
		return schema{Type: "string", Format: "date-time"}
	}
	return schema{Type: t.Kind().String()}
}

func objectOf(t reflect.Type) schema {
	s := schema{Type: "object"}
	for _, field := range reflect.VisibleFields(t) {
		if field.Anonymous {
			continue
		}
		name, option, _ := strings.Cut(field.Tag.Get("json"), ",")
		if s.Properties == nil {
			s.Properties = make(map[string]schema)
		}
		s.Properties[name] = schemaOf(field.Type)
		if option == "" {
			s.Required = append(s.Required, name)
		}
	}
	return s
}

// TestDescriptionIsTrue checks that each endpoint is described, with its parameters, request and response, and that
// nothing else is.
func TestDescriptionIsTrue(t *testing.T) {
	d := described(t)
	undone := make(map[string]bool)
	for path, methods := range d.Paths {
		for method := range methods {
			undone[strings.ToUpper(method)+" "+path] = true
		}
	}
	health := reflect.TypeFor[Health]()
	all := append(newFake("").endpoints(),
		endpoint{method: "GET", path: "/livez", response: health}, endpoint{method: "GET", path: "/readyz", response: health})
	for _, e := range all {
		name := e.method + " " + e.path
		o, ok := d.Paths[e.path][strings.ToLower(e.method)]
		if !ok || o.Summary == "" {
			t.Errorf("%s is not described", name)
			continue
		}
		delete(undone, name)
		if got, want := parameters(&o), wantedParameters(&e); !slices.Equal(got, want) {
			t.Errorf("%s has parameters %v, want %v", name, got, want)
		}
		success, refusals := o.Responses["200"], o.Responses["default"]
		if e.response != nil {
			same(t, name+" gives", d.resolve(success.json()), schemaOf(e.response))
		}
		if e.response == health {
			continue // matched in both directions
		}
		same(t, name+" refuses with", d.resolve(refusals.json()), schemaOf(reflect.TypeFor[refusal]()))
		switch {
		case (e.request == nil) != (o.RequestBody == nil):
			t.Errorf("%s: described with a body: %v, has one: %v", name, o.RequestBody != nil, e.request != nil)
		case e.request != nil:
			same(t, name+" takes", d.resolve(o.RequestBody.json()), schemaOf(e.request))
		}
	}
	for name := range undone {
		t.Errorf("%s is described and does not exist", name)
	}
}

func parameters(o *operation) (names []string) {
	for _, p := range o.Parameters {
		names = append(names, p.In+" "+p.Name)
	}
	slices.Sort(names)
	return names
}

var placeholder = regexp.MustCompile(`\{(\w+)\}`)

func wantedParameters(e *endpoint) (names []string) {
	for _, match := range placeholder.FindAllStringSubmatch(e.path, -1) {
		names = append(names, "path "+match[1])
	}
	for _, name := range e.query {
		names = append(names, "query "+name)
	}
	slices.Sort(names)
	return names
}

func same(t *testing.T, what string, described, real schema) {
	t.Helper()
	if !reflect.DeepEqual(normal(described), normal(real)) {
		a, _ := json.Marshal(normal(described))
		b, _ := json.Marshal(normal(real))
		t.Errorf("%s\n%s, by the description, and\n%s, by the code", what, a, b)
	}
}

// normal returns a schema with sorted lists.
func normal(s schema) schema {
	s.Required = slices.Sorted(slices.Values(s.Required))
	if s.Items != nil {
		items := normal(*s.Items)
		s.Items = &items
	}
	s.Properties = maps.Clone(s.Properties)
	for name, property := range s.Properties {
		s.Properties[name] = normal(property)
	}
	return s
}

// TestAnswersAreAsDescribed checks real answers against the description.
func TestAnswersAreAsDescribed(t *testing.T) {
	d, f := described(t), newFake("")
	f.state = Reloads{Succeeded: 1, Last: time.Now(), Error: "want more", Restart: []string{"log.level"}}
	for path, example := range map[string]string{
		"/api/v1/sessions":       "/api/v1/sessions?limit=1",
		"/api/v1/sessions/{id}":  "/api/v1/sessions/c",
		"/api/v1/why":            "/api/v1/why?address=192.0.2.1",
		"/api/v1/upstreams":      "/api/v1/upstreams",
		"/api/v1/reload":         "/api/v1/reload",
		"/api/v1/fleet":          "/api/v1/fleet",
		"/api/v1/fleet/bans":     "/api/v1/fleet/bans",
		"/api/v1/fleet/servers":  "/api/v1/fleet/servers",
		"/api/v1/fleet/sessions": "/api/v1/fleet/sessions",
		"/api/v1/version":        "/api/v1/version",
		"/api/v1/config":         "/api/v1/config",
		"/livez":                 "/livez",
		"/readyz":                "/readyz",
	} {
		var answer any
		if err := json.Unmarshal(f.ask("GET", example, "").Body.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		success := d.Paths[path]["get"].Responses["200"]
		for _, fault := range d.faults(example, success.json(), answer) {
			t.Error(fault)
		}
	}
}

// faults lists the places where a value does not match a schema.
func (d *description) faults(where string, s schema, value any) (faults []string) {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		s = d.Components.Schemas[name]
	}
	kind := map[bool]string{true: "integer", false: "number"}
	switch value := value.(type) {
	case map[string]any:
		for _, name := range s.Required {
			if _, ok := value[name]; !ok {
				faults = append(faults, where+" lacks "+name)
			}
		}
		for name, v := range value {
			property, ok := s.Properties[name]
			if !ok {
				faults = append(faults, where+"."+name+" is not described")
			}
			faults = append(faults, d.faults(where+"."+name, property, v)...)
		}
	case []any:
		for _, v := range value {
			faults = append(faults, d.faults(where+"[]", *s.Items, v)...)
		}
	case string:
		if s.Type != "string" || s.Enum != nil && !slices.Contains(s.Enum, value) {
			faults = append(faults, where+" is "+value)
		}
	case float64:
		if s.Type != "number" && s.Type != kind[value == float64(int64(value))] {
			faults = append(faults, where+" is a number")
		}
	case bool:
		if s.Type != "boolean" {
			faults = append(faults, where+" is true or false")
		}
	}
	return faults
}

// TestDescriptionFaults checks that faults finds errors.
func TestDescriptionFaults(t *testing.T) {
	d := &description{}
	s := schema{
		Properties: map[string]schema{"a": {Type: "integer"}, "b": {Type: "string", Enum: []string{"x"}}},
		Required:   []string{"c"},
	}
	got := d.faults("it", s, map[string]any{"a": 1.5, "b": "y", "d": true})
	slices.Sort(got)
	want := []string{"it lacks c", "it.a is a number", "it.b is y", "it.d is not described", "it.d is true or false"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
