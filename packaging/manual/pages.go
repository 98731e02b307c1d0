package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"tidegate/internal/daemon"
	"tidegate/packaging/manual/sections"
)

// manualPage is a page of the manual.
type manualPage struct {
	name    string
	section int
	text    string
}

// writeManual writes pages into a folder as man(1) looks for them.
func writeManual(pages []manualPage, folder string) error {
	var failed error
	for _, p := range pages {
		section := filepath.Join(folder, fmt.Sprintf("man%d", p.section))
		if err := os.MkdirAll(section, 0o755); err != nil {
			return err
		}
		file := filepath.Join(section, fmt.Sprintf("%s.%d", p.name, p.section))
		failed = errors.Join(failed, os.WriteFile(file, []byte(p.text), 0o644))
	}
	return failed
}

// manual returns all pages of the manual: the program's, one for each command, and the configuration's.
func manual(app *cli.App, exampleConfig string) []manualPage {
	pages := []manualPage{programPage(app)}
	for _, c := range app.Commands {
		pages = append(pages, commandPage(app, c))
	}
	return append(pages, configurationPage(app, exampleConfig))
}

func beginPage(name string, section int, purpose string) *Page {
	return New(Title{
		Name: name, Section: section, Date: daemon.Date(), Release: "tidegate " + daemon.Version(), Purpose: purpose,
	})
}

func programPage(app *cli.App) manualPage {
	p := beginPage(app.Name, 1, app.Usage)
	p.Section("SYNOPSIS")
	p.Paragraphs(app.Name + " COMMAND [OPTIONS] [ARGUMENTS]")
	p.Section("DESCRIPTION")
	p.Paragraphs("Tidegate stands in front of game servers. It terminates each player's connection and forwards\n" +
		"complete messages to a server, over the same protocol or another one.")
	p.Section("COMMANDS")
	for _, c := range app.Commands {
		p.Item(c.Name, c.Usage+". See "+app.Name+"-"+c.Name+"(1).")
	}
	p.Section("EXAMPLES")
	p.Code(app.Name+" demo", app.Name+" check -c tidegate.toml", app.Name+" run -c tidegate.toml")
	writeExitStatus(p, "")
	writeFiles(p, configFiles, adminFiles, banFiles)
	p.Section("SEE ALSO")
	p.Paragraphs(app.Name + "-run(1), " + app.Name + ".toml(5)")
	return manualPage{app.Name, 1, p.String()}
}

func commandPage(app *cli.App, c *cli.Command) manualPage {
	name := app.Name + "-" + c.Name
	p := beginPage(name, 1, c.Usage)
	leaves := leafCommands(app.Name, c)
	p.Section("SYNOPSIS")
	for i, l := range leaves {
		if i > 0 {
			p.Break()
		}
		p.Paragraphs(strings.TrimSpace(l.path + " [OPTIONS] " + l.ArgsUsage))
	}
	p.Section("DESCRIPTION")
	p.Paragraphs(sentence(c.Usage))
	writeDescription(p, c)
	writeOptions(p, leaves)
	p.Section("EXAMPLES")
	for _, l := range leaves {
		if _, lines := splitExamples(l.Description); len(lines) > 0 {
			p.Code(lines...)
		}
	}
	writeExitStatus(p, c.Name)
	writeFiles(p, filesOf(c.Name, leaves)...)
	p.Section("SEE ALSO")
	p.Paragraphs(app.Name + "(1), " + app.Name + ".toml(5)")
	return manualPage{name, 1, p.String()}
}

// leaf is a command without subcommands, with the words that run it.
type leaf struct {
	*cli.Command
	path string
}

// leafCommands returns the commands below c that do something, or c itself.
func leafCommands(parent string, c *cli.Command) []leaf {
	path := parent + " " + c.Name
	if len(c.Subcommands) == 0 {
		return []leaf{{c, path}}
	}
	var all []leaf
	for _, sub := range c.Subcommands {
		all = append(all, leafCommands(path, sub)...)
	}
	return all
}

// writeDescription adds a command's text without its examples.
func writeDescription(p *Page, c *cli.Command) {
	if text, _ := splitExamples(c.Description); text != "" {
		p.Break()
		p.Paragraphs(text)
	}
}

// writeOptions adds the flags: of a group, its subcommands' each under its own heading.
func writeOptions(p *Page, leaves []leaf) {
	p.Section("OPTIONS")
	for _, l := range leaves {
		if len(leaves) > 1 {
			p.Subsection(l.path)
			p.Paragraphs(sentence(l.Usage))
			writeDescription(p, l.Command)
		}
		for _, f := range l.Flags {
			p.Item(optionOf(f))
		}
		p.Item("-h, --help", "Print the help.")
	}
}

// optionOf returns a flag's names with its value, and its explanation.
func optionOf(f cli.Flag) (term, text string) {
	doc, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return strings.Join(f.Names(), ", "), ""
	}
	usage := doc.GetUsage()
	value := ""
	if before, after, ok := strings.Cut(usage, "`"); ok && doc.TakesValue() {
		word, rest, _ := strings.Cut(after, "`")
		value, usage = " "+word, before+word+rest
	}
	var names []string
	for _, n := range slices.Backward(f.Names()) { // the short name first
		dashes := "--"
		if len(n) == 1 {
			dashes = "-"
		}
		names = append(names, dashes+n+value)
	}
	text = sentence(strings.ReplaceAll(usage, "`", ""))
	if byDefault := doc.GetDefaultText(); doc.TakesValue() && byDefault != "" && byDefault != `""` {
		text += "\nDefault: " + byDefault + "."
	}
	return strings.Join(names, ", "), text
}

// splitExamples splits a Description made with examples.
func splitExamples(description string) (text string, lines []string) {
	text, list, _ := strings.Cut(description, "Examples:\n")
	for line := range strings.SplitSeq(list, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.TrimSpace(text), lines
}

// sentence makes a usage text a sentence.
func sentence(text string) string {
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

func configurationPage(app *cli.App, exampleConfig string) manualPage {
	name := app.Name + ".toml"
	p := beginPage(name, 5, "the configuration of Tidegate")
	p.Section("DESCRIPTION")
	for _, s := range sections.Read(exampleConfig) {
		if s.Header != "" {
			p.Section(s.Header)
		}
		for _, text := range []string{s.Group, s.Text} {
			if text != "" {
				p.Break()
				p.Paragraphs(text)
			}
		}
		for _, k := range s.Keys {
			p.Item(k.Name+" = "+k.Value, k.Text)
		}
	}
	p.Section("EXAMPLES")
	p.Paragraphs("Print a complete configuration for Riptide clients and a RakNet server, and check it:")
	p.Code("tidegate demo --from riptide-2.2 --to raknet --show-config > tidegate.toml", "tidegate check")
	writeFiles(p, configFiles, banFiles)
	p.Section("SEE ALSO")
	p.Paragraphs(app.Name + "(1), " + app.Name + "-check(1), " + app.Name + "-run(1)")
	return manualPage{name, 5, p.String()}
}
