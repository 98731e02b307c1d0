package config

import (
	"fmt"
	"strings"
	"testing"

	"tidegate/internal/protocols"
)

// dialects returns the valid file with two dialects, and more text in its route.
func dialects(more string) []byte {
	text := strings.Replace(valid, `["raknet"]`, `["riptide-2.0"]`, 1)
	text = strings.Replace(text, `protocol = "raknet"`, `protocol = "riptide-2.2"`, 1)
	return []byte(strings.Replace(text, "[[upstream]]", "ordered = \"fast\"\n"+more+"\n[[upstream]]", 1))
}

func TestMessages(t *testing.T) {
	for _, row := range []struct{ name, more, want string }{
		{"good", "[[route.message]]\nid = 0\ntypes = [\"int\"]\n[[route.message]]\nid = 65535\ntypes = [\"int\"]", ""},
		{"nothing in it", "[[route.message]]", `
t.toml:12:3: route[0].message[0].id: want 0 to 65535
t.toml:12:3: route[0].message[0].types: want at least one type of value, for example ["ushort", "vector3"]`},
		{"IDs out of range", "message = [{id = -1, types = [\"int\"]}, {id = 65536, types = [\"int\"]}]", `
t.toml:12:18: route[0].message[0].id = -1: want 0 to 65535
t.toml:12:46: route[0].message[1].id = 65536: want 0 to 65535`},
		{"ID twice", "[[route.message]]\nid = 7\ntypes = [\"int\"]\n[[route.message]]\nid = 7\ntypes = [\"int\"]",
			`t.toml:16:6: route[0].message[1].id = 7: want an ID of its own; route[0].message[0] on line 12 has it already`},
		{"types that a dialect lacks", "[[route.message]]\nid = 7\ntypes = [\"int\", \"flot\", \"varulong\"]", `
t.toml:14:17: route[0].message[0].types[1] = "flot": want int
t.toml:14:25: route[0].message[0].types[2] = "varulong": want int`},
		{"types deep in a line", "message = [{id = 1, types = [\"int\", \"flot\"]}]",
			`t.toml:12:37: route[0].message[0].types[1] = "flot": want int`},
		{"undeclared", `undeclared = "keep"`, `t.toml:12:14: route[0].undeclared = "keep": want "pass", "drop" or "end"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, _, err := Parse("t.toml", dialects(row.more), known)
			check(t, err, row.want)
		})
	}
}

func TestMessageWarnings(t *testing.T) {
	declared := "[[route.message]]\nid = 1\ntypes = [\"int\"]\n"
	for _, row := range []struct {
		name string
		text []byte
		want string
	}{
		{"declared", dialects(declared), ""},
		{"not declared", dialects(""), `t.toml:7:3: route[0].message: want a [[route.message]] table for each message ID: ` +
			`riptide-2.0 and riptide-2.2 encode some values differently, and no table declares them`},
		{"one dialect", []byte(strings.ReplaceAll(valid, `"raknet"`, `"riptide-2.2"`)), ""},
		{"without effect", []byte(strings.Replace(valid, "[[upstream]]", declared+"[[upstream]]", 1)),
			`t.toml:11:3: route[0].message[0]: want no [[route.message]] table: on this route payloads pass unchanged, ` +
				`so types have no effect`},
		{"nothing to drop", []byte(strings.Replace(valid, "[[upstream]]", "undeclared = \"drop\"\n[[upstream]]", 1)),
			`t.toml:11:14: route[0].undeclared = "drop": want "pass": on this route payloads pass unchanged, declared or not`},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, warnings, err := Parse("t.toml", row.text, known)
			if err != nil {
				t.Fatal(err)
			}
			check(t, Faults(warnings), row.want)
		})
	}
}

// TestMessagesWithoutFile checks a message of a configuration without a file.
func TestMessagesWithoutFile(t *testing.T) {
	c, _, err := Parse("t.toml", dialects(""), known)
	if err != nil {
		t.Fatal(err)
	}
	c.places = nil
	c.Routes[0].Messages = []Message{{ID: 5, Types: []string{"int"}}}
	if _, err := c.Validate(known); err != nil {
		t.Error(err)
	}
}

// TestSharedOpeners checks protocols on one listener that the same single byte opens.
func TestSharedOpeners(t *testing.T) {
	text := strings.Replace(valid, `["raknet"]`, `["rtype", "riptide-2.2", "riptide-2.0"]`, 1)
	text = strings.Replace(text, "[[route]]", "[[route]]\nallow_lossy = true", 1)
	_, warnings, err := Parse("t.toml", []byte(text), known)
	if err != nil {
		t.Fatal(err)
	}
	check(t, Faults(warnings), `t.toml:4:38: listener[0].protocols[2] = "riptide-2.0": want the more important `+
		`protocol first, or one listener for each: a single byte 0x03 may open both, and rtype is listed first`)
}

func TestMergesWantFrames(t *testing.T) {
	const warning = `want "framed" unless the game can tell where a message ends: rudp may join messages and rtype ` +
		`does not`
	for _, row := range []struct{ client, upstream, envelope, want string }{
		{"rudp", "rtype", "id", "t.toml:8:12: route[0].envelope = \"id\": " + warning},
		{"rtype", "rudp", "raw", "t.toml:8:12: route[0].envelope = \"raw\": " + warning},
		{"rudp", "rtype", "framed", ""},
		{"rudp", "rudp", "id", ""},
	} {
		text := strings.Replace(valid, `["raknet"]`, `["`+row.client+`"]`, 1)
		text = strings.Replace(text, `protocol = "raknet"`, `protocol = "`+row.upstream+`"`, 1)
		text = strings.Replace(text, "[[route]]", "[[route]]\nenvelope = \""+row.envelope+"\"\nallow_lossy = true", 1)
		_, warnings, err := Parse("t.toml", []byte(text), known)
		if err != nil {
			t.Fatal(err)
		}
		check(t, Faults(warnings), row.want)
	}
}

// TestComponentsAreBounded reaches the bound on the number of components.
func TestComponentsAreBounded(t *testing.T) {
	var text strings.Builder
	for i := range 255 {
		fmt.Fprintf(&text, "rtype.components.c%d = 1\n", i)
	}
	c, _, err := Parse("t.toml", []byte(text.String()+valid), known)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Options["rtype"].(*protocols.RTypeSettings).Components; len(got) != 255 || got["c7"] != 1 {
		t.Fatalf("%d components", len(got))
	}
	text.WriteString("rtype.components.more = 1\n")
	_, _, err = Parse("t.toml", []byte(text.String()+valid), known)
	check(t, err, "t.toml:1:7: rtype.components: want at most 255 components; these are 256")
}
