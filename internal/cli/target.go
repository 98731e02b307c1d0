package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
	"tidegate/internal/config"
)

// Environment variables that name the running proxy.
const (
	adminVariable = "TIDEGATE_ADMIN"
	tokenVariable = "TIDEGATE_ADMIN_TOKEN"
)

var adminFlag = &cli.StringFlag{
	Name: "admin", Usage: "reach the proxy whose admin server is at `URL`, with the token in $" + tokenVariable,
	DefaultText: "-c, then $" + adminVariable + ", then the default configuration",
}

// target names the running proxy of a command.
type target struct{ admin, config string }

// targetOf returns the target of the flags.
func targetOf(c *cli.Context) target {
	return target{admin: c.String("admin"), config: c.String("config")}
}

// client returns a client for the running proxy. The flag --admin is stronger than -c, and both are stronger than the
// environment. Without a configuration, the proxy is looked for where it listens by default.
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
	named := t.admin
	if named == "" && t.config == "" {
		named = os.Getenv(adminVariable)
	}
	table := config.Admin{Listen: config.AdminAuto}
	path := t.config
	if path == "" && named == "" {
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
	case named != "":
		address, err = adminAddress(named)
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

// adminAddress reads the URL of an admin server. It may lack the scheme.
func adminAddress(text string) (admin.Address, error) {
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
	return "", misuse(fmt.Errorf(`admin server %q: want "http://HOST:PORT" or "unix:/PATH"`, text))
}
