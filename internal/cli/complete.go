package cli

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"tidegate/internal/admin"
	"tidegate/internal/banfile"
	"tidegate/internal/config"
	"tidegate/internal/contexts"
	"tidegate/internal/decode"
	"tidegate/internal/demo"
	"tidegate/internal/each"
	"tidegate/ratelimit"
)

// Scripts for shells. They ask tidegate for the next words (completeWord).
var (
	//go:embed completion/bash
	bashCompletion string
	//go:embed completion/zsh
	zshCompletion string
	//go:embed completion/fish
	fishCompletion string
)

var shells = []string{"bash", "zsh", "fish"}

func completionCommand() *cli.Command {
	return command(&cli.Command{
		Name:      "completion",
		Usage:     "print a script that completes commands, flags, sessions, servers and bans in bash, zsh or fish",
		ArgsUsage: "SHELL",
		Description: "For one shell: source <(tidegate completion bash). Permanently: put the script\n" +
			"into the shell's folder for completions.\n\n" +
			examples("tidegate completion bash", "tidegate completion zsh", "tidegate completion fish"),
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 || !slices.Contains(shells, c.Args().First()) {
				return misuse(errors.New("want one of bash, zsh or fish"))
			}
			script := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}
			_, err := io.WriteString(c.App.Writer, script[c.Args().First()])
			return err
		},
	})
}

// completeWord is the hidden command of the completion scripts: tidegate __complete WORD... prints the possible last
// words, one a line, each with a tab and a description if it has one.
const completeWord = "__complete"

// filesFollow is the answer for the name of a file, which the shell completes itself.
const filesFollow = ":files"

// completeTime bounds the questions to a running proxy for one completion.
const completeTime = time.Second

// completion finds the possible last words of a command line.
type completion struct {
	ctx     context.Context
	line    line
	flags   map[string]string // values so far, by name
	current string            // the word to complete, perhaps empty
}

// candidate is a possible word.
type candidate struct{ word, about string }

// source finds candidates. Errors mean that there are none: a completion cannot report them.
type source func(*completion) []candidate

// complete prints the candidates for the last of the words.
func complete(ctx context.Context, app *cli.App, words []string) {
	if len(words) == 0 {
		words = []string{""}
	}
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	given, current := words[:len(words)-1], words[len(words)-1]
	c := &completion{ctx: ctx, current: current}
	var open string // flag that the current word is the value of
	anywhere := valueFlags(app.Commands)
	if n := len(given); n > 0 && isFlag(given[n-1]) {
		before, _ := parseLine(app, given[:n-1])
		if name := strings.TrimLeft(given[n-1], "-"); before.takesValue(name, anywhere) {
			open, given = name, given[:n-1]
		}
	}
	c.line, _ = parseLine(app, given)
	c.flags = make(map[string]string)
	for i, flag := range c.line.flags {
		if name, value, ok := strings.Cut(strings.TrimLeft(flag, "-"), "="); ok {
			c.flags[name] = value
		} else if c.line.takesValue(name, anywhere) && i+1 < len(c.line.flags) {
			c.flags[name] = c.line.flags[i+1]
		}
	}
	prefix := ""
	if name, value, ok := strings.Cut(strings.TrimLeft(current, "-"), "="); ok && isFlag(current) {
		open, prefix, c.current = name, strings.TrimSuffix(current, value), value
	}
	for _, found := range c.candidates(app, open) {
		if strings.HasPrefix(found.word, c.current) || found.word == filesFollow {
			fmt.Fprintln(app.Writer, strings.TrimSuffix(prefix+found.word+"\t"+found.about, "\t"))
		}
	}
}

// candidates returns the words that may stand in the place of the current one.
func (c *completion) candidates(app *cli.App, open string) []candidate {
	commands := app.Commands
	if c.line.command != nil {
		commands = c.line.command.Subcommands
	}
	switch path := strings.Join(c.line.path, " "); {
	case open != "":
		return c.values(path, open)
	case strings.HasPrefix(c.current, "-"):
		return flagNames(c.line.ownFlags())
	case len(commands) > 0:
		return commandNames(commands)
	case len(argumentValues[path]) > 0:
		sources := argumentValues[path]
		return sources[min(len(c.line.arguments), len(sources)-1)](c)
	}
	return nil
}

func commandNames(commands []*cli.Command) []candidate {
	return each.Of(commands, func(c *cli.Command) candidate { return candidate{c.Name, c.Usage} })
}

func flagNames(flags []cli.Flag) (all []candidate) {
	for _, f := range flags {
		about := ""
		if of, ok := f.(cli.DocGenerationFlag); ok {
			about = strings.ReplaceAll(of.GetUsage(), "`", "")
		}
		all = append(all, candidate{"--" + f.Names()[0], about})
	}
	return append(all, candidate{"--help", "show help"})
}

// values returns the possible values of a flag.
func (c *completion) values(path, flag string) []candidate {
	for _, f := range c.line.ownFlags() {
		if !slices.Contains(f.Names(), flag) {
			continue
		}
		name := f.Names()[0]
		if of, ok := f.(*cli.StringFlag); ok && of.TakesFile {
			return files(c)
		}
		if find := flagValues[path+" "+name]; find != nil {
			return find(c)
		}
		if find := flagValues[name]; find != nil {
			return find(c)
		}
	}
	return nil
}

var upstreamNames = running(func(n runningConfig) []string { return n.Upstreams })

// argumentValues has the sources of each command's arguments, in their order. The last one is for all further
// arguments.
var argumentValues = map[string][]source{
	"sessions show":     {sessionIDs, none},
	"sessions kick":     {sessionIDs},
	"sessions export":   {sessionIDs},
	"sessions import":   {files, none},
	"sessions transfer": {sessionIDs, serverAddresses, none},
	"upstreams drain":   {upstreamNames, serverAddresses, none},
	"upstreams undrain": {upstreamNames, serverAddresses, none},
	"ban del":           {bannedPrefixes},
	"ban import":        {files, none},
	"context del":       {contextNames, none},
	"decode":            {files, none},
	"check":             {files, none},
	"completion":        {fixed(shells...), none},
	"help":              {helpTopics},
}

// flagValues has the sources of flags' values, by name, or by command and name where a command differs.
var flagValues = map[string]source{
	"from":            fixed(demo.Protocols()...),
	"to":              fixed(demo.Protocols()...),
	"init from":       fixed(append(config.StarterNames(), relayAny)...),
	"init to":         fixed(config.StarterNames()...),
	"protocol":        fixed(demo.Protocols()...),
	"decode protocol": fixed(decode.Protocols()...),
	"ping protocol":   fixed(probeNames()...),
	"session":         sessionIDs,
	"server":          serverAddresses,
	"listener":        running(func(n runningConfig) []string { return n.Listeners }),
	"route":           running(func(n runningConfig) []string { return n.Routes }),
	"upstream":        upstreamNames,
	"sort":            fixed(sortNames()...),
	"state":           fixed("half-open", "established", "held", "ending"),
	"client":          clientAddresses,
	"context":         contextNames,
}

func none(*completion) []candidate { return nil }

func files(*completion) []candidate { return []candidate{{word: filesFollow}} }

func fixed(words ...string) source {
	return func(*completion) []candidate {
		return each.Of(words, func(word string) candidate { return candidate{word: word} })
	}
}

func contextNames(c *completion) []candidate {
	all, _ := contexts.Read()
	return fixed(all.Names()...)(c)
}

func helpTopics(c *completion) []candidate {
	commands := App(nil).Commands
	for _, word := range c.line.arguments {
		if found := named(commands, word); found != nil {
			commands = found.Subcommands
		}
	}
	return commandNames(commands)
}

func (c *completion) config() string { return cmp.Or(c.flags["c"], c.flags["config"]) }

// ask asks the proxy that the flags name. The answer is empty without one.
func ask[T any](c *completion, get func(context.Context, *admin.Client) (T, error)) (answer T) {
	client, err := target{c.flags["admin"], c.config(), c.flags["context"]}.orEnvironment().client()
	if err == nil {
		answer, _ = get(c.ctx, client)
	}
	return answer
}

// resource returns a question to a proxy for ask.
func resource[T any](path string) func(context.Context, *admin.Client) (T, error) {
	return func(ctx context.Context, client *admin.Client) (answer T, err error) {
		err = client.Get(ctx, path, &answer)
		return answer, err
	}
}

// sessionsBy returns a source of words about the first page of the running proxy's sessions.
func sessionsBy(word func(*admin.Session) candidate) source {
	return func(c *completion) (all []candidate) {
		page := ask(c, resource[admin.Sessions]("/api/v1/sessions"))
		for i := range page.Sessions {
			if found := word(&page.Sessions[i]); !slices.Contains(all, found) {
				all = append(all, found)
			}
		}
		return all
	}
}

var (
	sessionIDs = sessionsBy(func(s *admin.Session) candidate {
		return candidate{s.ID, s.Client.Address + ", " + s.Client.Protocol + ", " + s.State}
	})
	clientAddresses = sessionsBy(func(s *admin.Session) candidate {
		host, _, _ := strings.Cut(s.Client.Address, ":")
		return candidate{word: host}
	})
)

// serverAddresses returns the running proxy's game servers, those of one upstream if the line names it.
func serverAddresses(c *completion) (all []candidate) {
	for _, u := range ask(c, resource[admin.Upstreams]("/api/v1/upstreams")).Upstreams {
		if c.line.path[0] == "upstreams" && !slices.Contains(c.line.arguments, u.Name) {
			continue
		}
		for _, s := range u.Servers {
			all = append(all, candidate{s.Address, u.Name + ", " + s.State})
		}
	}
	return all
}

// running returns a source of names in the running proxy's configuration.
func running(names func(runningConfig) []string) source {
	return func(c *completion) []candidate { return fixed(names(ask(c, runningNames))...)(c) }
}

// bannedPrefixes reads the ban file without changing it.
func bannedPrefixes(c *completion) []candidate {
	file := c.flags["file"]
	if file == "" {
		path := c.config()
		if path == "" {
			path, _ = config.Find()
		}
		table, err := config.LoadBans(path)
		if err != nil {
			return nil
		}
		file = table.File
	}
	if _, err := os.Stat(file); err != nil {
		return nil
	}
	bans, _ := banfile.File(file).Read()
	return each.Of(bans, func(b ratelimit.Ban) candidate { return candidate{b.Prefix.String(), printable(b.Reason)} })
}
