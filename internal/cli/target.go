package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	"tidegate/internal/admin"
	"tidegate/internal/config"
	"tidegate/internal/contexts"
	"tidegate/internal/regular"
	"tidegate/internal/table"
)

// Environment variables that name the running proxy.
const (
	adminVariable   = "TIDEGATE_ADMIN"
	tokenVariable   = "TIDEGATE_ADMIN_TOKEN"
	contextVariable = "TIDEGATE_CONTEXT"
)

// targetFlags name the running proxy of a command.
func targetFlags() []cli.Flag {
	return []cli.Flag{
		configFlag,
		&cli.StringFlag{Name: "admin", DefaultText: "-c, then $" + contextVariable + " or $" + adminVariable +
			", then the default configuration",
			Usage: "reach the proxy whose admin server is at `URL`, with the token in $" + tokenVariable},
		&cli.StringFlag{Name: "context", Usage: "reach the proxy to which tidegate context add gave the `NAME`",
			DefaultText: "$" + contextVariable},
	}
}

// target names the running proxy of a command.
type target struct{ admin, config, context string }

// targetOf returns the target of the flags, or else of the environment.
func targetOf(c *cli.Context) target {
	return target{c.String("admin"), c.String("config"), c.String("context")}.orEnvironment()
}

func (t target) orEnvironment() target {
	if t == (target{}) {
		t.context = os.Getenv(contextVariable)
		if t.context == "" {
			t.admin = os.Getenv(adminVariable)
		}
	}
	return t
}

// isNamed reports whether the target is an admin server, not that of a configuration.
func (t target) isNamed() bool { return t.admin != "" || t.context != "" }

// client returns a client for the running proxy. The flag --admin is stronger than -c. Without a configuration, the
// proxy is looked for where it listens by default.
func (t target) client() (*admin.Client, error) {
	address, token, err := t.find()
	if err != nil {
		return nil, err
	}
	return admin.NewClient(address, token), nil
}

// errAdminOff says that the configuration has no admin server.
var errAdminOff = errors.New(`admin.listen = "off": a running proxy cannot be reached`)

func (t target) find() (address admin.Address, token string, err error) {
	if t.context != "" {
		return t.findContext()
	}
	table := config.Admin{Listen: config.AdminAuto}
	path := t.config
	if path == "" && t.admin == "" {
		if path, err = config.Find(); errors.Is(err, config.ErrNoFile) {
			err = nil
		}
	}
	if err == nil && path != "" {
		table, err = config.LoadAdmin(path)
	}
	switch {
	case err != nil:
		return "", "", faulty(err)
	case t.admin != "":
		address, err = adminAddress(t.admin)
	case table.Listen == config.AdminOff:
		return "", "", fmt.Errorf("%s has %w", path, errAdminOff)
	default:
		address = admin.Address(table.Listen)
	}
	if token = os.Getenv(tokenVariable); token == "" {
		token = string(table.Token)
	}
	return address, token, err
}

// findContext returns what the operator has added. The token of the environment is for another proxy.
func (t target) findContext() (address admin.Address, token string, err error) {
	if t.admin != "" || t.config != "" {
		return "", "", misuse(errors.New("--context, and --admin or -c: want one of them"))
	}
	all, err := contexts.Read()
	if err != nil {
		return "", "", err
	}
	found, err := all.Find(t.context)
	if err == nil {
		address, err = adminAddress(found.Admin)
	}
	return address, found.Token, err
}

// adminAddress reads the URL of an admin server. It may lack the scheme, unless that is https.
func adminAddress(text string) (admin.Address, error) {
	if secure, err := url.Parse(text); err == nil && secure.Scheme == "https" && secure.Hostname() != "" &&
		strings.TrimSuffix(text, "/") == "https://"+secure.Host {
		return admin.Address("https://" + secure.Host), nil
	}
	rest := strings.TrimSuffix(strings.TrimPrefix(text, "http://"), "/")
	if path, ok := strings.CutPrefix(rest, "unix:"); ok {
		if path = strings.TrimPrefix(path, "//"); path != "" {
			return admin.Address("unix:" + path), nil
		}
	}
	host, port, err := net.SplitHostPort(rest)
	if rest == string(admin.Auto) || err == nil && host != "" && port != "" && !strings.Contains(rest, "/") {
		return admin.Address(rest), nil
	}
	return "", misuse(fmt.Errorf(`admin server %q: want "http://HOST:PORT", "https://HOST" or "unix:/PATH"`, text))
}

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
