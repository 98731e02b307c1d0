package raknet

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"tidegate/codec"
	"tidegate/internal/testkit/allocs"
)

func TestJoinPongs(t *testing.T) {
	const bedrock = "MCPE;Arena;844;1.21.111;3;20;123;World;Survival;1;19132;19133;"
	for _, c := range []struct {
		name  string
		texts []string
		as    codec.Listing
		want  string
	}{
		{"one server", []string{bedrock}, codec.Listing{Port: 7777},
			"MCPE;Arena;844;1.21.111;3;20;123;World;Survival;1;7777;7777;"},
		{"named", []string{bedrock}, codec.Listing{Name: "Tide", Port: 7777},
			"MCPE;Tide;844;1.21.111;3;20;123;World;Survival;1;7777;7777;"},
		{"summed", []string{bedrock, "MCEE;B;1;1;40;80", "a stranger;;;;5;5", "MCPE;C;1;1;many;7", "MCPE"},
			codec.Listing{Port: 1}, "MCPE;Arena;844;1.21.111;43;107;123;World;Survival;1;1;1;"},
		{"largest numbers", []string{"MCPE;A;1;1;999999999;1", "MCPE;A;1;1;999999999;1000000000"}, codec.Listing{},
			"MCPE;A;1;1;1999999998;1"},
		{"fields that are no numbers", []string{"MCPE;A;1;1;?;-2;g;w;m;1;;"}, codec.Listing{Port: 7777},
			"MCPE;A;1;1;?;-2;g;w;m;1;;"},
		{"no fields", []string{"MCPE", bedrock}, codec.Listing{Name: "Tide", Port: 7777}, "MCPE"},
		{
			"another game's", []string{"Race;Friday;1;1;4;8", bedrock}, codec.Listing{Name: "Tide", Port: 7777},
			"Race;Friday;1;1;4;8",
		},
		{"nothing", []string{""}, codec.Listing{Name: "Tide"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var texts [][]byte
			for _, text := range c.texts {
				texts = append(texts, []byte(text))
			}
			b := make([]byte, 0, 200)
			p := New(Options{})
			if got := p.JoinPongs(b, texts, c.as); string(got) != c.want {
				t.Errorf("JoinPongs = %q, want %q", got, c.want)
			}
			if n := allocs.PerRun(100, func() { p.JoinPongs(b, texts, c.as) }); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

func FuzzJoinPongs(f *testing.F) {
	f.Add([]byte("MCPE;A;1;1;3;20;g;w;m;1;1;1;"), []byte("MCEE;;;;9"), "")
	f.Fuzz(func(t *testing.T, one, other []byte, name string) {
		joined := New(Options{}).JoinPongs(nil, [][]byte{one, other}, codec.Listing{Name: name, Port: 7})
		if !isBedrockText(one) && !bytes.Equal(joined, one) {
			t.Errorf("%q became %q", one, joined)
		}
		got, want := bytes.Count(joined, semicolon), bytes.Count(one, semicolon)
		if got != want && !strings.Contains(name, ";") {
			t.Errorf("%q became %q", one, joined)
		}
	})
}

func TestPinger(t *testing.T) {
	var text []byte
	asked := 0
	server := New(Options{Pong: []byte("configured"), PongText: func() []byte { asked++; return text }})
	client := New(Options{})
	for _, c := range []struct{ given, want string }{
		{"", "configured"},
		{"given", "given"},
		{strings.Repeat("p", maxPong+1), strings.Repeat("p", maxPong)},
	} {
		text = []byte(c.given)
		_, reply, err := server.Accept(linkStart, linkClient, client.AppendPing(nil, 1<<63|5), nil)
		if err != nil {
			t.Fatal(err)
		}
		token, got, err := client.ParsePong(reply)
		if err != nil || token != 1<<63|5 || string(got) != c.want {
			t.Errorf("pong %#x %q, %v; want %q", token, got, err, c.want)
		}
	}
	silent := New(Options{PongText: func() []byte { return text }})
	for _, text = range [][]byte{nil, {}, []byte("given")} {
		_, reply, err := silent.Accept(linkStart, linkClient, client.AppendPing(nil, 5), nil)
		if answers := len(reply) > 0; answers != (text != nil) || answers != (err == nil) {
			t.Errorf("text %q and nothing configured: %d bytes, %v", text, len(reply), err)
		}
	}
	if asked != 3 {
		t.Errorf("the text was asked for %d times, want once a ping", asked)
	}
	if _, _, err := client.ParsePong([]byte("no pong")); !errors.Is(err, codec.ErrMalformed) {
		t.Errorf("no pong: %v, want ErrMalformed", err)
	}
	ping, reply := client.AppendPing(nil, 5), make([]byte, 0, codec.MaxDatagram)
	if n := allocs.PerRun(100, func() { _, _, _ = server.Accept(linkStart, linkClient, ping, reply) }); n != 0 {
		t.Errorf("%v allocations a ping", n)
	}
}
