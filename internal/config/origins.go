package config

import (
	"fmt"
	"reflect"
)

// Origins says where the values of keys come from that a listener or an upstream may have of its own, by the path of
// the key: "line 12", "[riptide], line 30" or "default". It is empty if the configuration was not read from a file.
func (c *Config) Origins() map[string]string {
	all := make(map[string]string)
	if c.places == nil {
		return all
	}
	for path, of := range c.owners {
		if _, ok := of.(*Listener); ok {
			all[child(path, "idle_timeout")] = c.origin(child(path, "idle_timeout"))
		}
		for _, table := range tablesOf(of) {
			for _, key := range keysOf(reflect.TypeOf((*of.own())[table]).Elem()) {
				full := child(child(path, table), key)
				all[full] = c.origin(full)
			}
		}
	}
	return all
}

// origin says where the value of an owner's key comes from.
func (c *Config) origin(key string) string {
	switch process := processKey(key); {
	case c.places.has(key):
		return fmt.Sprintf("line %d", c.places.find(key).key.line)
	case c.places.has(process):
		return fmt.Sprintf("[%s], line %d", parent(process), c.places.find(process).key.line)
	}
	return "default"
}
