// Package contexts keeps an operator's names of remote proxies in a file: the URL of each admin server, and its token.
package contexts

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"tidegate/internal/regular"
)

// Context is a remote proxy.
type Context struct {
	Admin string `toml:"admin"`           // URL of the admin server
	Token string `toml:"token,omitempty"` // of the admin server
}

// Table has the contexts by their names.
type Table map[string]Context

// path returns the path of the file, in the user's folder for configurations.
func path() (string, error) {
	folder, err := os.UserConfigDir()
	return filepath.Join(folder, "tidegate", "contexts.toml"), err
}

// Read reads the file. Without one, the table is empty.
func Read() (Table, error) {
	table := make(Table)
	file, err := path()
	if err != nil {
		return table, err
	}
	text, err := regular.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return table, nil
	}
	if err == nil {
		err = toml.Unmarshal(text, &table)
	}
	if err != nil {
		return table, fmt.Errorf("contexts of %s: %w", file, err)
	}
	return table, nil
}

// Names returns the names, sorted.
func (t Table) Names() []string { return slices.Sorted(maps.Keys(t)) }

// Find returns the context of a name.
func (t Table) Find(name string) (Context, error) {
	found, ok := t[name]
	if !ok {
		return found, fmt.Errorf("context %q: want one of: %s", name, strings.Join(t.Names(), ", "))
	}
	return found, nil
}

// Write replaces the file. Only its owner can read the tokens.
func (t Table) Write() error {
	file, err := path()
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o700)
	}
	if err != nil {
		return err
	}
	text, err := toml.Marshal(t)
	if err != nil {
		return err
	}
	return regular.Replace(file, 0o600, text)
}
