package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"tidegate/internal/words"
)

// line is a command line. Users may write its flags at any place.
type line struct {
	path      []string     // names of the command, with the groups around it
	command   *cli.Command // the innermost command of path; nil without one
	flags     []string     // each flag is followed by its value
	arguments []string     // all other words
}

// parseLine sorts the words of a command line. In case of an error the line has the words up to it.
func parseLine(app *cli.App, all []string) (l line, err error) {
	anywhere, commands := valueFlags(app.Commands), app.Commands
	for i := 0; i < len(all); i++ {
		word := all[i]
		switch {
		case l.command != nil && l.command.SkipFlagParsing:
			l.arguments = append(l.arguments, word)
		case word == "--":
			l.arguments = append(l.arguments, all[i+1:]...)
			return l, l.check()
		case isFlag(word):
			l.flags = append(l.flags, word)
			name, _, stated := strings.Cut(strings.TrimLeft(word, "-"), "=")
			switch {
			case !l.takesValue(name, anywhere) || stated:
			case i+1 == len(all):
				return l, misuse(fmt.Errorf("%s: want a value", word))
			default:
				i++
				l.flags = append(l.flags, all[i])
			}
		case len(l.arguments) == 0 && named(commands, word) != nil:
			l.command = named(commands, word)
			l.path, commands = append(l.path, l.command.Name), l.command.Subcommands
		default:
			l.arguments = append(l.arguments, word)
		}
	}
	return l, l.check()
}

func isFlag(word string) bool { return len(word) > 1 && word[0] == '-' }

// named returns the command of a name, or nil.
func named(commands []*cli.Command, name string) *cli.Command {
	i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(name) })
	if i < 0 {
		return nil
	}
	return commands[i]
}

// valueFlags returns the names of all flags that take a value.
func valueFlags(commands []*cli.Command) map[string]bool {
	takes := make(map[string]bool)
	for _, c := range commands {
		for _, f := range c.Flags {
			if of, ok := f.(cli.DocGenerationFlag); ok && of.TakesValue() {
				for _, name := range f.Names() {
					takes[name] = true
				}
			}
		}
		for name := range valueFlags(c.Subcommands) {
			takes[name] = true
		}
	}
	return takes
}

// takesValue reports whether a flag takes a value: that of the command if there is one already, else of any command.
func (l *line) takesValue(name string, anywhere map[string]bool) bool {
	if l.command == nil || len(l.command.Subcommands) > 0 {
		return anywhere[name]
	}
	return valueFlags([]*cli.Command{{Flags: l.command.Flags}})[name]
}

// check returns an error for a flag that the command does not have. Flags for help and version belong to all commands.
func (l *line) check() error {
	var known []string
	if l.command != nil {
		for _, f := range l.command.Flags {
			known = append(known, f.Names()...)
		}
	}
	takesValue := valueFlags([]*cli.Command{{Flags: l.ownFlags()}})
	for i := 0; i < len(l.flags); i++ {
		dashed, _, stated := strings.Cut(l.flags[i], "=")
		name := strings.TrimLeft(dashed, "-")
		if !slices.Contains(known, name) && !slices.Contains(everywhere, name) {
			dashes := "--"
			if len(name) == 1 {
				dashes = "-"
			}
			return unknown("flag", dashes, name, append(known, everywhere...))
		}
		if takesValue[name] && !stated {
			i++
		}
	}
	return nil
}

// ownFlags returns the flags of the command.
func (l *line) ownFlags() []cli.Flag {
	if l.command == nil {
		return nil
	}
	return l.command.Flags
}

// everywhere lists the flags of every command line.
var everywhere = []string{"help", "h", "version", "v"}

// has reports whether the line has a flag without a value.
func (l *line) has(names ...string) bool {
	return slices.ContainsFunc(l.flags, func(flag string) bool {
		return isFlag(flag) && slices.Contains(names, strings.TrimLeft(flag, "-"))
	})
}

// words returns the line for package cli, which wants flags before other words.
func (l *line) words() []string {
	if l.command != nil && len(l.command.Subcommands) == 0 && l.has("help", "h") {
		return append(slices.Clone(l.path), "--help") // an argument would be a topic
	}
	all := slices.Concat(l.path, l.flags)
	if slices.ContainsFunc(l.arguments, isFlag) && (l.command == nil || !l.command.SkipFlagParsing) {
		all = append(all, "--")
	}
	return append(all, l.arguments...)
}

// help is the command line that explains the command.
func (l *line) help() string {
	if slices.Equal(l.path, []string{"help"}) { // it asks for the help of another command
		return "tidegate --help"
	}
	return strings.Join(append([]string{"tidegate"}, append(l.path, "--help")...), " ")
}

// meant has the commands of other programs for ours.
var meant = map[string]string{
	"ls": "list", "rm": "del", "remove": "del", "delete": "del", "start": "run", "serve": "run", "status": "health",
	"test": "check", "validate": "check", "lint": "check", "stop": "drain", "new": "init", "restart": "upgrade",
	"disconnect": "kick", "watch": "top", "monitor": "top", "unban": "del", "nodes": "status",
}

// unknown returns the error for a word that a command line cannot have after a prefix. It suggests a known word.
func unknown(kind, prefix, word string, known []string) error {
	near, ok := words.Nearest(word, known)
	if other := meant[word]; slices.Contains(known, other) {
		near, ok = other, true
	}
	if ok && len(near) > 1 {
		return misuse(fmt.Errorf("unknown %s %q; did you mean %q?", kind, prefix+word, prefix+near))
	}
	return misuse(fmt.Errorf("unknown %s %q", kind, prefix+word))
}

// usageError is an error in the words of a command line. Commands exit with 2.
type usageError struct{ error }

// Unwrap returns the error itself.
func (e *usageError) Unwrap() error { return e.error }

// ExitCode implements cli.ExitCoder.
func (e *usageError) ExitCode() int { return exitUsage }

// misuse turns err into an error that exits with code 2.
func misuse(err error) error { return &usageError{err} }

// badFlag finds the parts of package flag's errors.
var badFlag = regexp.MustCompile(`^invalid (?:boolean )?value (".*") for (?:flag )?-([^ :]+): (.*)$`)

// flagError returns an error of package flag in this program's words.
func flagError(err error) error {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		return misuse(fmt.Errorf("--%s: want a value", name))
	}
	if parts := badFlag.FindStringSubmatch(text); parts != nil {
		want := parts[3]
		if !strings.HasPrefix(want, "want ") {
			want = "want a whole number"
		}
		return misuse(fmt.Errorf("--%s %s: %s", parts[2], parts[1], want))
	}
	return misuse(errors.New(text))
}
