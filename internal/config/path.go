package config

import (
	"regexp"
	"strconv"
	"strings"
)

// child returns the path of a key in the table at path: listener[0].address.
func child(path, key string) string {
	if !isBare(key) {
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// item returns the path of an element of the list at path: listener[0].
func item(path string, i int) string {
	return path + "[" + strconv.Itoa(i) + "]"
}

// parent returns the path of the table or list around path. It is empty for the file itself.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// isBare reports whether TOML accepts a key without quotes.
func isBare(key string) bool {
	return key != "" && strings.Trim(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// inherited matches the keys of an owner that may be the process's.
var inherited = regexp.MustCompile(`^(?:listener|upstream)\[\d+\]\.(idle_timeout|\w+\..+)$`)

// processKey returns the process's key for a key of an owner, or nothing.
func processKey(key string) string {
	switch found := inherited.FindStringSubmatch(key); {
	case found == nil:
		return ""
	case found[1] == "idle_timeout":
		return child("limits", found[1])
	default:
		return found[1]
	}
}
