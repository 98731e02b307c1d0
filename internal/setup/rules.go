package setup

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/internal/cidr"
	"tidegate/internal/config"
	"tidegate/internal/filter"
	"tidegate/internal/regular"
	"tidegate/proxy/relay"
	"tidegate/ratelimit"
)

// maxDatabase is the size in bytes of the largest MaxMind file that is read. City databases have about 60 MB.
const maxDatabase = 512 << 20

// SettingsWithRules returns Settings plus the compiled filter rules. It reads the lists and databases that the
// configuration names.
func SettingsWithRules(c *config.Config, loops int, secrets Secrets) (*relay.Settings, error) {
	set, err := Rules(c)
	if err != nil {
		return nil, err
	}
	s := Settings(c, loops, secrets)
	s.Filter = set
	return s, nil
}

// Rules compiles the rules about sources and messages. The error lists every unusable file.
func Rules(c *config.Config) (*filter.Set, error) {
	var r filter.Rules
	var faults []error
	var err error
	if r.Countries, err = database(c, c.Geo.CountryFile); err != nil {
		faults = append(faults, fmt.Errorf("geo.country_file: %w", err))
	}
	if r.Networks, err = database(c, c.Geo.NetworkFile); err != nil {
		faults = append(faults, fmt.Errorf("geo.network_file: %w", err))
	}
	for i := range c.Access {
		source, err := sourceRule(c, &c.Access[i])
		if err != nil {
			faults = append(faults, fmt.Errorf("access %s: %w", c.Access[i].Name, err))
		}
		r.Sources = append(r.Sources, source)
	}
	for i := range c.Filters {
		r.Messages = append(r.Messages, messageRule(&c.Filters[i]))
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return filter.New(r)
}

// RuleFiles returns the files that the rules read.
func RuleFiles(c *config.Config) []string {
	named := []string{c.Geo.CountryFile, c.Geo.NetworkFile}
	for i := range c.Access {
		named = append(named, c.Access[i].Files...)
	}
	var files []string
	for _, file := range named {
		if file = c.Path(file); file != "" && !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files
}

func database(c *config.Config, file string) (*filter.Database, error) {
	if file == "" {
		return nil, nil
	}
	path := c.Path(file)
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxDatabase {
		return nil, fmt.Errorf("%s: larger than %d MiB", path, maxDatabase>>20)
	}
	bytes, err := regular.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d, err := filter.NewDatabase(bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

func sourceRule(c *config.Config, a *config.Access) (filter.Source, error) {
	s := filter.Source{
		Name: a.Name, Listeners: a.Listeners, Countries: a.Countries,
		Verdict: ratelimit.Verdict(a.Verdict.Value()),
	}
	for _, number := range a.Networks {
		s.Networks = append(s.Networks, uint32(number))
	}
	for _, p := range a.Prefixes {
		s.Prefixes = append(s.Prefixes, p.Prefix())
	}
	var faults []error
	for _, file := range a.Files {
		list, err := readList(c.Path(file))
		if err != nil {
			faults = append(faults, err)
		}
		s.Prefixes = append(s.Prefixes, list...)
	}
	return s, errors.Join(faults...)
}

// readList reads a file of prefixes.
func readList(path string) ([]netip.Prefix, error) {
	file, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	list, err := cidr.Read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

func messageRule(f *config.Filter) filter.Message {
	m := filter.Message{
		Name: f.Name, Listeners: f.Listeners, Protocols: f.Protocols,
		Direction: f.From.Value(),
		IDs:       ranges(f.IDs), Packets: ranges(f.Packets),
		MinSize: int(f.MinSize), MaxSize: int(f.MaxSize),
		Verdict: ratelimit.Verdict(f.Verdict.Value()),
	}
	for _, name := range f.Modes {
		m.Modes |= codec.ModesOf(codec.Mode(name.Value()))
	}
	if f.Rate > 0 {
		m.Every, m.Burst = max(1, time.Duration(f.Per)/time.Duration(f.Rate)), f.Rate
	}
	return m
}

func ranges(of []config.Range) (all []filter.Range) {
	for _, r := range of {
		low, high := r.Bounds()
		all = append(all, filter.Range{Low: low, High: high})
	}
	return all
}
