package setup

import (
	"encoding"
	"fmt"
)

// named is a value that knows its names in the configuration.
type named[E any] interface {
	*E
	encoding.TextUnmarshaler
}

// read returns the value of a word in the configuration, which has been checked. No word is the zero value.
func read[E any, P named[E], W ~string](word W) (value E) {
	if word == "" {
		return value
	}
	if err := P(&value).UnmarshalText([]byte(word)); err != nil {
		panic(fmt.Sprintf("%T: %v", value, err)) // TestEveryWordIsRead
	}
	return value
}
