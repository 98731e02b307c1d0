package config

import (
	"bytes"
	"regexp"
)

// Marks by which texts in other encodings and formats are recognised.
var (
	utf16Marks = [][]byte{{0xff, 0xfe}, {0xfe, 0xff}}
	yamlLine   = regexp.MustCompile(`(?m)^\s*(- )?[A-Za-z_][\w-]*:(\s|$)`)
	tomlLine   = regexp.MustCompile(`(?m)^\s*(\[|[\w."-]+\s*=)`)
)

// otherFormat returns the remedy for a text that is not TOML, if it is in a format or encoding that people take for
// it.
func otherFormat(text []byte) string {
	switch {
	case bytes.HasPrefix(text, utf16Marks[0]), bytes.HasPrefix(text, utf16Marks[1]):
		return "a text in UTF-8; this one is in UTF-16, so save it as UTF-8"
	case bytes.IndexByte(text, 0) >= 0:
		return "a text; this is a program or another binary file"
	case bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")):
		return "TOML; this looks like JSON: write key = value, below a [[header]] for each table"
	case yamlLine.Match(text) && !tomlLine.Match(text):
		return "TOML; this looks like YAML: write key = value in place of key: value, below a [[header]] for each table"
	case bytes.IndexByte(text, '\r') >= 0 && bytes.IndexByte(text, '\n') < 0:
		return "lines that end with a line feed; these end with a carriage return only"
	}
	return ""
}
