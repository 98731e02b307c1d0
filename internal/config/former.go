package config

import (
	"cmp"
	_ "embed"
	"regexp"

	"github.com/pelletier/go-toml/v2"
)

//go:embed former.toml
var formerKeys []byte

var indices = regexp.MustCompile(`\[\d+\]`)

// formerly says how things are now for a key that the table at path had in an earlier release.
func formerly(path, key string) (now string) {
	var all map[string]map[string]string
	_ = toml.Unmarshal(formerKeys, &all) // a test reads it, too
	full := child(path, key)
	return all[indices.ReplaceAllString(parent(cmp.Or(processKey(full), full)), "")][key]
}
