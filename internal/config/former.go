package config

import (
	"cmp"
	_ "embed"
	"regexp"
	"sync"

	"github.com/pelletier/go-toml/v2"
)

//go:embed former.toml
var formerKeys []byte

var indices = regexp.MustCompile(`\[\d+\]`)

// allFormer has what formerly says, by table and key.
var allFormer = sync.OnceValue(func() (all map[string]map[string]string) {
	_ = toml.Unmarshal(formerKeys, &all) // a test reads it, too
	return all
})

// formerly says how things are now for a key that the table at path had in an earlier release.
func formerly(path, key string) (now string) {
	full := child(path, key)
	return allFormer()[indices.ReplaceAllString(parent(cmp.Or(processKey(full), full)), "")][key]
}
