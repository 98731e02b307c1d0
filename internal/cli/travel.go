package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
)

// exported is a line of an export. It has the state for people, or the record for sessions import.
type exported struct {
	Session admin.Session  `json:"session"`
	State   map[string]any `json:"state,omitempty"`
	Record  string         `json:"record,omitempty"`
}

// maxExported bounds a line of an export in bytes.
const maxExported = 4 << 20

func exportCommand() *cli.Command {
	c := operatorCommandFor(&cli.Command{
		Name: "export", Usage: "write all that sessions consist of as JSON, or take sessions out for import",
		Flags: append(choosingFlags(), jsonFlag,
			&cli.BoolFlag{Name: "all", Usage: "export every session that the other flags choose, or of the whole proxy"},
			&cli.BoolFlag{Name: "move", Usage: "take the sessions out of the proxy, with their secrets, for sessions import"},
			&cli.StringFlag{
				Name: "output", Aliases: []string{"o"}, Usage: "write to `FILE`; - is standard output", DefaultText: "-",
			},
			&cli.BoolFlag{Name: "force", Usage: "replace an existing file"},
		),
		Description: "Without --move the sessions stay, and the file has neither secrets nor payloads: it is for people.\n" +
			"With --move the sessions leave this proxy, and their clients wait. Import the file within two minutes,\n" +
			"and delete it: it has the secrets of the sessions.\n\n" +
			examples("tidegate sessions export --client 203.0.113.7", "tidegate sessions export --all -o sessions.jsonl",
				"tidegate sessions export --all --move -o moving.jsonl"),
	}, wantExport, exportSessions)
	c.ArgsUsage = "[ID...]"
	return c
}

// wantExport checks the flags of an export.
func wantExport(c *cli.Context) error {
	if err := wantSessions(c); err != nil {
		return err
	}
	path := c.String("output")
	switch {
	case c.Bool("move") && path == "":
		return misuse(errors.New("sessions export --move: want -o FILE, since the sessions leave the proxy"))
	case c.Bool("move") && path == "-" && isTerminal(c.App.Writer):
		return misuse(errors.New("-o -: a terminal must not show secrets; pipe them to sessions import"))
	}
	return mayCreate(c, path)
}

// refusedSession is a session that was not exported or imported.
type refusedSession struct {
	ID    string `json:"session"`
	Error string `json:"error"`
}

// travelled is the JSON of export and import.
type travelled struct {
	Done    []string         `json:"sessions"`
	Refused []refusedSession `json:"refused"`
}

func (done *travelled) refuse(id string, err error) {
	done.Refused = append(done.Refused, refusedSession{id, err.Error()})
}

func exportSessions(c *cli.Context, client *admin.Client) error {
	ids, err := chosenIDs(c, client)
	if err != nil {
		return err
	}
	file := io.WriteCloser(unclosed{c.App.Writer})
	if path := c.String("output"); path != "" && path != "-" {
		if file, err = openCapture(c, path); err != nil {
			return err
		}
	}
	done := travelled{Done: []string{}, Refused: []refusedSession{}}
	for _, id := range ids {
		switch err := exportSession(c, client, file, id); {
		case errors.Is(err, errNotWritten):
			return errors.Join(err, file.Close())
		case err != nil:
			done.refuse(id, err)
		default:
			done.Done = append(done.Done, id)
		}
	}
	if err := file.Close(); err != nil {
		return err
	}
	return tellTravelled(c, &done, "exported", "stays")
}

// errNotWritten reports that the output cannot be written.
var errNotWritten = errors.New("write the export")

// exportSession writes one session. If that fails, a session that was taken out is put in again.
func exportSession(c *cli.Context, client *admin.Client, file io.Writer, id string) error {
	var line exported
	path := "/api/v1/sessions/" + url.PathEscape(id)
	var record admin.Record
	if err := client.Get(c.Context, path+"/record", &record); err != nil {
		return err
	}
	line.Session, line.State = record.Session, record.State
	if c.Bool("move") {
		var out admin.Travel
		if err := client.Post(c.Context, path+"/take-out", struct{}{}, &out); err != nil {
			return err
		}
		line.State, line.Record = nil, out.Record
	}
	if err := json.NewEncoder(file).Encode(&line); err != nil {
		if line.Record != "" {
			err = errors.Join(err, putIn(c, client, &line))
		}
		return fmt.Errorf("%w: %w", errNotWritten, err)
	}
	return nil
}

func putIn(c *cli.Context, client *admin.Client, line *exported) error {
	return client.Post(c.Context, "/api/v1/sessions/put-in", admin.Travel{Record: line.Record}, nil)
}

func importCommand() *cli.Command {
	return operatorCommand(&cli.Command{
		Name: "import", Usage: "take in sessions from sessions export --move",
		Flags: []cli.Flag{jsonFlag},
		Description: "A session goes on with its client's next datagram, which must arrive within 30 s. So change the\n" +
			"clients' path to this proxy first. FILE - is standard input.\n\n" +
			examples("tidegate sessions import moving.jsonl"),
	}, importSessions, "FILE")
}

func importSessions(c *cli.Context, client *admin.Client) error {
	path, in := c.Args().First(), c.App.Reader
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return misuse(err)
		}
		defer func() { _ = file.Close() }() // it was only read
		in = file
	}
	done := travelled{Done: []string{}, Refused: []refusedSession{}}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxExported)
	for n := 1; lines.Scan(); n++ {
		var line exported
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.Session.ID == "" {
			return misuse(fmt.Errorf("%s:%d: want a session of sessions export; %d sessions were taken in", path, n,
				len(done.Done)))
		}
		err := errNoSecrets
		if line.Record != "" {
			err = putIn(c, client, &line)
		}
		switch {
		case isAbsent(err):
			return err
		case err != nil:
			done.refuse(line.Session.ID, err)
		default:
			done.Done = append(done.Done, line.Session.ID)
		}
	}
	if err := lines.Err(); err != nil {
		return misuse(fmt.Errorf("%s: %w", path, err))
	}
	return tellTravelled(c, &done, "taken in", "refused")
}

// errNoSecrets reports a session that was exported for people.
var errNoSecrets = errors.New("the file lacks its secrets, so it cannot go on; sessions export --move keeps them")

// tellTravelled prints what became of each session. A refused one makes the command fail.
func tellTravelled(c *cli.Context, done *travelled, did, not string) error {
	out := c.App.ErrWriter // standard output may have the sessions
	if c.Bool("json") {
		_ = json.NewEncoder(out).Encode(done)
	} else {
		fmt.Fprintf(out, "%s: %d\n", did, len(done.Done))
		for _, r := range done.Refused {
			fmt.Fprintf(out, "session %s %s: %s\n", r.ID, not, r.Error)
		}
	}
	if n := len(done.Refused); n > 0 {
		return fmt.Errorf("%d of %d sessions: %s", n, n+len(done.Done), not)
	}
	return nil
}
