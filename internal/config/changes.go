package config

import (
	"fmt"
	"slices"
	"strings"
)

// Change is a key whose value differs between two configurations.
type Change struct {
	Key      string // with the name of its table, for example `upstream "arena" servers`
	Old, New string // as TOML, without secrets; empty: the configuration does not have the key
}

// Changes lists the keys that differ in next, in the order of the file. Removed keys come last.
func (c *Config) Changes(next *Config) (changes []Change) {
	oldKeys, olds := flatten(c.TOML())
	newKeys, news := flatten(next.TOML())
	for _, key := range newKeys {
		if olds[key] != news[key] {
			changes = append(changes, Change{key, olds[key], news[key]})
		}
	}
	for _, key := range oldKeys {
		if !slices.Contains(newKeys, key) {
			changes = append(changes, Change{key, olds[key], ""})
		}
	}
	return changes
}

// flatten returns the keys of a printed configuration in their order, and their values. A table of a list goes by its
// name, or by its place in the list.
func flatten(text string) (keys []string, values map[string]string) {
	values = make(map[string]string)
	labels := make(map[string]string) // of the tables of lists that hold the present line, by path
	places := make(map[string]int)
	path, base := "", "" // base is the present table of a list without its name or place
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		key, value, isKey := strings.Cut(line, " = ")
		switch {
		case strings.HasPrefix(line, "[["):
			path = strings.Trim(line, "[]")
			delete(labels, path)
			base = label(labels, path)
			places[base]++
			labels[path] = fmt.Sprintf("%s %d", base, places[base])
		case strings.HasPrefix(line, "["):
			path = strings.Trim(line, "[]")
		case isKey && key == "name" && path != "" && labels[path] != "":
			labels[path] = base + " " + value
		case isKey:
			full := label(labels, path) + " " + key
			keys, values[full] = append(keys, full), value
		}
	}
	return keys, values
}

// label returns the name of a table. Inside a list, it has the name of the list's table.
func label(labels map[string]string, path string) string {
	for at := len(path); at > 0; at = strings.LastIndexByte(path[:at], '.') {
		if labels[path[:at]] != "" {
			return labels[path[:at]] + path[at:]
		}
	}
	return path
}
