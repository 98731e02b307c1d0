package config

import "reflect"

// LoadAdmin reads only the [admin] table of a configuration file. So commands reach a running proxy while the rest of
// the file is being edited. The error is Faults if the table or the file has faults.
func LoadAdmin(path string) (Admin, error) {
	c, err := loadTable(path, "admin", "Admin", (*validator).admin)
	if err != nil {
		return Admin{}, err
	}
	return c.Admin, nil
}

// loadTable reads only the table with a key, into a field of Config.
func loadTable(path, key, field string, check func(*validator)) (*Config, error) {
	text, err := read(path)
	if err != nil {
		return nil, err
	}
	d, tables, err := begin(path, text)
	if err != nil {
		return nil, err
	}
	to := reflect.ValueOf(d.config).Elem().FieldByName(field)
	if table, ok := tables[key]; ok {
		d.value(key, to, table)
	}
	v := &validator{Config: d.config, report: d.report}
	v.bounded(key, to)
	check(v)
	_, err = d.report.result()
	return d.config, err
}

// LoadBans reads only the [bans] table of a configuration file. So commands can ban while the rest of the file is
// being edited. The file in the result is a path that a command can open.
func LoadBans(path string) (Bans, error) {
	c, err := loadTable(path, "bans", "Bans", (*validator).bans)
	if err != nil {
		return Bans{}, err
	}
	c.Bans.File = c.Path(c.Bans.File)
	return c.Bans, nil
}
