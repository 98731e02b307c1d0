package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
	"tidegate/internal/contexts"
	"tidegate/internal/regular"
	"tidegate/internal/table"
)

func contextCommand() *cli.Command {
	return group(&cli.Command{
		Name:  "context",
		Usage: "name remote proxies, for --context of all commands, and show the health of all",
		Description: "The names, URLs and tokens are in tidegate/contexts.toml in your folder for configurations, which\n" +
			"only you can read.",
		Subcommands: []*cli.Command{command(&cli.Command{
			Name: "add", Usage: "name a proxy, or change it", ArgsUsage: "NAME URL",
			Flags: []cli.Flag{jsonFlag, &cli.StringFlag{
				Name: "token-file", TakesFile: true, DefaultText: "$" + tokenVariable,
				Usage: "read the admin server's token from `FILE`; - is standard input",
			}},
			Description: examples("tidegate context add eu1 https://eu1.example.com",
				"tidegate context add lan http://10.0.0.2:9470 --token-file token.txt"),
			Action: addContext,
		}), command(&cli.Command{
			Name: "list", Usage: "list the names and the health of all proxies; if one cannot take players, the exit code is 1",
			Flags:       []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print a JSON object for each proxy"}},
			Description: examples("tidegate context list", "tidegate context list --json"),
			Action:      listContexts,
		}), command(&cli.Command{
			Name: "del", Usage: "forget a name and its token", ArgsUsage: "NAME", Flags: []cli.Flag{jsonFlag},
			Description: examples("tidegate context del eu1"),
			Action: func(c *cli.Context) error {
				return changeContexts(c, func(t contexts.Table, name string) error {
					_, err := t.Find(name)
					delete(t, name)
					return err
				}, "NAME")
			},
		})},
	})
}

// contextName matches names that need no quotes in a shell.
var contextName = regexp.MustCompile(`^[\w.-]{1,64}$`)

func addContext(c *cli.Context) error {
	return changeContexts(c, func(t contexts.Table, name string) error {
		at := contexts.Context{Admin: c.Args().Get(1), Token: os.Getenv(tokenVariable)}
		if !contextName.MatchString(name) {
			return misuse(fmt.Errorf("%q: want a name of letters, digits, dots, dashes and underscores", name))
		}
		if _, err := adminAddress(at.Admin); err != nil {
			return err
		}
		text, err := []byte(nil), error(nil)
		switch file := c.String("token-file"); file {
		case "":
			text = []byte(at.Token)
		case "-":
			text, err = io.ReadAll(os.Stdin)
		default:
			text, err = regular.ReadFile(file)
		}
		at.Token = strings.TrimSpace(string(text))
		t[name] = at
		return err
	}, "NAME", "URL")
}

// changeContexts changes the entry of the first argument.
func changeContexts(c *cli.Context, change func(contexts.Table, string) error, arguments ...string) error {
	if err := wantArguments(c, arguments...); err != nil {
		return err
	}
	all, err := contexts.Read()
	if err == nil {
		err = change(all, c.Args().First())
	}
	if err == nil {
		err = all.Write()
	}
	if err != nil {
		return err
	}
	return printDone(c, struct {
		Contexts []string `json:"contexts"`
	}{all.Names()}, "contexts: %s", strings.Join(all.Names(), ", "))
}

// contextState is a proxy in the list of contexts.
type contextState struct {
	Name   string `json:"name"`
	Admin  string `json:"admin"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}

// contextTime bounds the questions to a proxy of the list.
const contextTime = 5 * time.Second

// listContexts asks all proxies at once.
func listContexts(c *cli.Context) error {
	all, err := contexts.Read()
	if err != nil {
		return err
	}
	states := make([]contextState, len(all))
	var asked sync.WaitGroup
	for i, name := range all.Names() {
		states[i] = contextState{Name: name, Admin: all[name].Admin}
		asked.Go(func() { states[i].ask(c) })
	}
	asked.Wait()
	columns := []table.Column{{Name: "NAME"}, {Name: "ADMIN", Drop: 1}, {Name: "HEALTH"}, {Name: "DETAIL"}}
	err = printList(c, states, columns, func(s *contextState) [][]string {
		health := "not ok"
		if s.OK {
			health = "ok"
		}
		return [][]string{{s.Name, s.Admin, health, printable(s.Detail)}}
	})
	if err == nil && slices.ContainsFunc(states, func(s contextState) bool { return !s.OK }) {
		err = cli.Exit("", 1)
	}
	return err
}

// ask fills in what the proxy answers. The detail is the first fault, or else the first warning.
func (s *contextState) ask(c *cli.Context) {
	ctx, cancel := context.WithTimeout(c.Context, contextTime)
	defer cancel()
	var health admin.Health
	client, err := target{context: s.Name}.client()
	if err == nil {
		health, err = askHealth(ctx, client, "/readyz")
	}
	if err != nil {
		s.Detail = err.Error()
		return
	}
	s.OK = health.OK
	for _, check := range health.Checks {
		if why := check.Name + ": " + check.Detail; !check.OK {
			s.Detail = why
			return
		}
		if s.Detail == "" && check.Warning != "" {
			s.Detail = check.Name + ": " + check.Warning
		}
	}
}
