package banfile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"tidegate/internal/cidr"
	"tidegate/ratelimit"
)

// maxBans bounds the bans in a file. A test lowers it.
var maxBans = 1_000_000

// maxLine bounds a line, in bytes: the longest argument of a command line, with every byte escaped.
const maxLine = 1 << 20

// MaxText bounds a ban's reason and its author, in bytes. Longer ones are cut when they are read or written.
const MaxText = 1 << 10

// Record is a ban as it is written.
type Record struct {
	Prefix string    `json:"prefix"`
	Reason string    `json:"reason,omitempty"`
	Author string    `json:"author,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Until  time.Time `json:"until,omitzero"` // absent: permanent
	Times  int       `json:"times,omitempty"`
}

// RecordOf returns the written form of a ban.
func RecordOf(b ratelimit.Ban) Record {
	return Record{b.Prefix.String(), Cut(b.Reason), Cut(b.Author), b.Since.UTC(), b.Until.UTC(), b.Times}
}

// Cut returns the first MaxText bytes of a text, without a part of a character at the end.
func Cut(text string) string {
	if len(text) <= MaxText {
		return text
	}
	return strings.ToValidUTF8(text[:MaxText], "")
}

// Ban returns the ban of a record. It checks the network, and cuts long texts.
func (r *Record) Ban() (ratelimit.Ban, error) {
	prefix, err := cidr.Parse(r.Prefix)
	if err != nil {
		return ratelimit.Ban{}, err
	}
	return ratelimit.Ban{
		Prefix: prefix, Reason: Cut(r.Reason), Author: Cut(r.Author), Since: r.Since.UTC(), Until: r.Until.UTC(),
		Times: max(0, r.Times),
	}, nil
}

// parse reads a ban from each line that is not empty. If several lines name one network, the last one counts.
func parse(r io.Reader) ([]ratelimit.Ban, error) {
	var bans []ratelimit.Ban
	places := make(map[netip.Prefix]int)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	n := 1
	for ; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		ban, err := parseLine(lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%d: %w", n, err)
		}
		if i, ok := places[ban.Prefix]; ok {
			bans[i] = ban
			continue
		}
		if len(bans) == maxBans {
			return nil, fmt.Errorf("%d: more than %d bans", n, maxBans)
		}
		places[ban.Prefix] = len(bans)
		bans = append(bans, ban)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%d: %w", n, err)
	}
	return bans, nil
}

func parseLine(line []byte) (ratelimit.Ban, error) {
	var r Record
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return ratelimit.Ban{}, fmt.Errorf("want an object of JSON: %w", err)
	}
	if d.More() {
		return ratelimit.Ban{}, fmt.Errorf("want one object of JSON on a line")
	}
	return r.Ban()
}

// format writes bans, one per line. It refuses what parse would refuse.
func format(w io.Writer, bans []ratelimit.Ban) error {
	if len(bans) > maxBans {
		return fmt.Errorf("%d bans: a file has room for %d", len(bans), maxBans)
	}
	lines := bufio.NewWriter(w)
	out := json.NewEncoder(lines)
	out.SetEscapeHTML(false)
	for _, b := range bans {
		if err := out.Encode(RecordOf(b)); err != nil {
			return err
		}
	}
	return lines.Flush()
}
