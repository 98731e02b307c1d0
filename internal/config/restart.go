package config

import "reflect"

// RestartKeys lists the keys whose values differ in next and take effect only after a restart, in the order of the
// file.
func (c *Config) RestartKeys(next *Config) (keys []string) {
	for _, t := range []struct {
		path string
		a, b any
	}{{"log", c.Log, next.Log}, {"loop", c.Loop, next.Loop}, {"admin", c.Admin, next.Admin}, {"kernel", c.Kernel, next.Kernel}} {
		a, b := reflect.ValueOf(t.a), reflect.ValueOf(t.b)
		for i := range a.NumField() {
			if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
				keys = append(keys, child(t.path, a.Type().Field(i).Tag.Get("toml")))
			}
		}
	}
	if c.Bans.File != next.Bans.File {
		keys = append(keys, "bans.file")
	}
	return keys
}
