package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// The types below are the part of CycloneDX 1.6 that describes a Go program.
type (
	bom struct {
		Format       string       `json:"bomFormat"`
		SpecVersion  string       `json:"specVersion"`
		Version      int          `json:"version"`
		Metadata     metadata     `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	metadata struct {
		Timestamp  string     `json:"timestamp"`
		Component  component  `json:"component"`
		Properties []property `json:"properties"`
	}
	component struct {
		Type     string    `json:"type"`
		Ref      string    `json:"bom-ref"`
		Name     string    `json:"name"`
		Version  string    `json:"version"`
		PURL     string    `json:"purl"`
		Scope    string    `json:"scope,omitempty"`
		Licenses []licence `json:"licenses"`
	}
	licence struct {
		License struct {
			ID string `json:"id"`
		} `json:"license"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn"`
	}
)

// components returns the list of a program's components (an SBOM) as CycloneDX.
func (r *release) components(p platform, modules []module) ([]byte, error) {
	program := newComponent("application", "tidegate", r.version, []string{"MIT"})
	program.PURL += "?" + url.Values{"goos": {p.os}, "goarch": {p.arch}, "type": {"module"}}.Encode()
	list := bom{
		Format: "CycloneDX", SpecVersion: "1.6", Version: 1,
		Metadata: metadata{
			Timestamp: r.date.Format(time.RFC3339), Component: program,
			Properties: []property{{"cdx:gomod:build:env:GOOS", p.os}, {"cdx:gomod:build:env:GOARCH", p.arch},
				{"cdx:gomod:build:vcs.revision", r.commit}},
		},
	}
	uses := dependency{Ref: program.Ref}
	for _, m := range modules {
		ids, err := licenceIDs(m)
		if err != nil {
			return nil, err
		}
		c := newComponent("library", m.Path, m.Version, ids)
		c.Scope = "required"
		if m.purl != "" {
			c.Ref, c.PURL = m.purl, m.purl
		}
		list.Components = append(list.Components, c)
		uses.DependsOn = append(uses.DependsOn, c.Ref)
	}
	list.Dependencies = []dependency{uses}
	text, err := json.MarshalIndent(list, "", "  ")
	return append(text, '\n'), err
}

// newComponent makes a component with its package URL.
func newComponent(kind, path, version string, licences []string) component {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	purl := fmt.Sprintf("pkg:golang/%s@%s", strings.Join(parts, "/"), url.PathEscape(version))
	c := component{Type: kind, Ref: purl, Name: path, Version: version, PURL: purl}
	for _, id := range licences {
		var l licence
		l.License.ID = id
		c.Licenses = append(c.Licenses, l)
	}
	return c
}
