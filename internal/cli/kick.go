package cli

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
	"tidegate/internal/words"
)

func kickCommand() *cli.Command {
	c := operatorCommandFor(&cli.Command{
		Name: "kick", Usage: "end sessions with a goodbye in the client's protocol",
		Flags: append(choosingFlags(), jsonFlag,
			&cli.BoolFlag{Name: "all", Usage: "end every session that the other flags choose, or of the whole proxy"},
			&cli.StringFlag{Name: "text", Usage: "send `TEXT` to the client, if its protocol has texts (Riptide)"},
		),
		Description: "Name sessions by their IDs, or choose them with flags.\n\n" +
			examples(`tidegate sessions kick --text "You were away for too long" 1`,
				"tidegate sessions kick --client 203.0.113.7", "tidegate sessions kick --server 10.0.0.5:19132 --all"),
	}, wantSessions, kickSessions)
	c.ArgsUsage = "[ID...]"
	return c
}

// wantSessions checks that a command line names sessions.
func wantSessions(c *cli.Context) error {
	chosen := slices.ContainsFunc(choosingFlags(), func(f cli.Flag) bool { return c.IsSet(f.Names()[0]) })
	switch {
	case c.NArg() > 0 && (chosen || c.Bool("all")):
		return misuse(fmt.Errorf("%s: want IDs or flags that choose sessions, not both", commandPath(c)))
	case c.NArg() == 0 && !chosen && !c.Bool("all"):
		return misuse(fmt.Errorf("%s: want IDs, flags that choose sessions, or --all", commandPath(c)))
	}
	return nil
}

// kicked is the JSON of kick.
type kicked struct {
	Kicked int      `json:"kicked"`
	IDs    []string `json:"sessions"`
}

// chosenIDs returns the sessions that the command's arguments name. Without arguments, its flags choose them.
func chosenIDs(c *cli.Context, client *admin.Client) ([]string, error) {
	if c.NArg() > 0 {
		return c.Args().Slice(), nil
	}
	all, err := chosenSessions(c, client, 0)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i].ID
	}
	return ids, nil
}

// kickSessions ends sessions one by one. A session that has ended meanwhile counts if it was chosen by a flag.
func kickSessions(c *cli.Context, client *admin.Client) error {
	ids, err := chosenIDs(c, client)
	if err != nil {
		return err
	}
	done, failed := kicked{IDs: []string{}}, []error(nil)
	for _, id := range ids {
		path := "/api/v1/sessions/" + url.PathEscape(id) + "/kick"
		err := client.Post(c.Context, path, admin.Kick{Text: c.String("text")}, nil)
		switch {
		case err == nil:
			done.IDs = append(done.IDs, id)
		case c.NArg() > 0 || !isRefused(err, http.StatusNotFound, http.StatusConflict):
			failed = append(failed, err)
		}
	}
	done.Kicked = len(done.IDs)
	text := words.Count(done.Kicked, "session")
	if done.Kicked == 1 {
		text = "session " + done.IDs[0]
	}
	if len(failed) == 0 || done.Kicked > 0 {
		if err := printDone(c, done, "kicked: %s", text); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}
