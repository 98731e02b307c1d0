package config

import "testing"

// withTable returns a valid file whose upstream has no servers and one more table.
func withTable(table string) []byte { return append(discovering(""), "\n"+table...) }

func TestKubernetes(t *testing.T) {
	for _, port := range []string{"", "game", "7777", "7-tcp"} {
		table := `kubernetes = { service = "arena", namespace = "games", port = "` + port + `" }`
		c, _, err := Parse("t.toml", discovering(table), known)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Upstreams[0].Kubernetes; got != (Kubernetes{"arena", port, "games", ""}) {
			t.Errorf("%+v", got)
		}
	}
}

func TestKubernetesFaults(t *testing.T) {
	for _, row := range []struct{ lines, want string }{
		{`port = "game"`, `17:11: upstream[0].kubernetes.service: want the name of a service, or no [upstream.kubernetes]`},
		{`service = "Arena"`, `18:11: upstream[0].kubernetes.service = "Arena": want the name of a service: ` + labelForm},
		{"service = \"a\"\nport = \"70000\"", `19:8: upstream[0].kubernetes.port = "70000": want the name of a port, ` +
			`its number in quotes, or ""`},
		{"service = \"a\"\nport = 7777", `19:8: upstream[0].kubernetes.port = 7777: want text in quotes`},
		{"service = \"a\"\nnamespace = \"-a\"", `19:13: upstream[0].kubernetes.namespace = "-a": want the name of a ` +
			`namespace: ` + labelForm},
		{"service = \"a\"\nsrevice = \"b\"", `19:1: upstream[0].kubernetes.srevice = "b": want a known key; did you ` +
			`mean "service"?`},
	} {
		_, _, err := Parse("t.toml", withTable("[upstream.kubernetes]\n"+row.lines), known)
		check(t, err, "t.toml:"+row.want)
	}
}
