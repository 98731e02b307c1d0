package main

import (
	"slices"

	"github.com/urfave/cli/v2"
)

// fact is an item of a manual page.
type fact struct{ term, text string }

// exitStatus lists the exit codes of commands that differ from the others'. "" is for all others.
var exitStatus = map[string][]fact{
	"": {
		{"0", "Success."},
		{"1", "Failure. A line on standard error gives the cause."},
		{"2", "Wrong usage, or a faulty configuration."},
	},
	"run": {
		{"0", "The proxy ended because it was asked to."},
		{"1", "Failure, for example a port that another program uses."},
		{"2", "Wrong usage. Fatal errors of the Go runtime have this code, too."},
		{"78", "The configuration has faults. A restart does not repair them."},
		{"130, 143", "A second SIGINT or SIGTERM ended the process at once."},
	},
	"check": {
		{"0", "The configuration is valid. There may be warnings on standard error."},
		{"1", "The output could not be written."},
		{"2", "Wrong usage, or the configuration has faults. Standard error lists all of them."},
	},
	"demo": {
		{"0", "Every reliable message came back once and unchanged."},
		{"1", "A message was lost, doubled or changed, or the demo could not run."},
		{"2", "Wrong usage."},
	},
	"doctor": {
		{"0", "No problem was found. There may be advice."},
		{"1", "There is a problem, or the output could not be written."},
		{"2", "Wrong usage, or a faulty configuration."},
	},
	"health": {
		{"0", "The running proxy is healthy; with --ready, it can take clients."},
		{"1", "It is not, or no proxy runs."},
		{"2", "Wrong usage, or a faulty configuration."},
	},
	"ping": {
		{"0", "The server answered."},
		{"1", "There was no answer in time, or the name has no address."},
		{"2", "Wrong usage."},
	},
}

var (
	configFiles = []fact{
		{"./tidegate.toml", "The configuration, if there is no --config."},
		{"/etc/tidegate/tidegate.toml", "The configuration, if there is no ./tidegate.toml either."},
	}
	adminFiles = []fact{
		{"/run/tidegate/admin.sock", "Socket of a system service's admin server (admin.listen)."},
		{"$XDG_RUNTIME_DIR/tidegate/admin.sock", "The same for a proxy that a user runs."},
	}
	banFiles   = []fact{{"bans.jsonl", "The bans, in the folder of the configuration (bans.file)."}}
	noFiles    = []fact{{"none", "The command reads and writes only files that its arguments name."}}
	adminUsers = []string{
		"capture", "drain", "fleet", "health", "metrics", "reload", "sessions", "top", "upgrade", "upstreams", "why",
	}
)

// filesOf returns the files of a command.
func filesOf(name string, leaves []leaf) [][]fact {
	configured := slices.ContainsFunc(leaves, func(l leaf) bool {
		return slices.ContainsFunc(l.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), "config") })
	})
	if !configured {
		return [][]fact{noFiles}
	}
	files := [][]fact{configFiles}
	if name == "run" || slices.Contains(adminUsers, name) {
		files = append(files, adminFiles)
	}
	if name == "run" || name == "ban" || name == "why" {
		files = append(files, banFiles)
	}
	return files
}

func writeFiles(p *Page, groups ...[]fact) {
	p.Section("FILES")
	for _, f := range slices.Concat(groups...) {
		p.Item(f.term, f.text)
	}
}

func writeExitStatus(p *Page, command string) {
	facts, ok := exitStatus[command]
	if !ok {
		facts = exitStatus[""]
	}
	p.Section("EXIT STATUS")
	for _, f := range facts {
		p.Item(f.term, f.text)
	}
}
