package config

import _ "embed"

// Schema is the JSON schema of a configuration file, for editors. "make reference" writes it: the comments of
// config.example.toml are its descriptions.
//
//go:embed schema.json
var Schema string
