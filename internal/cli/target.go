package cli

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
	"tidegate/internal/config"
	"tidegate/internal/contexts"
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
