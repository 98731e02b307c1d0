package setup

import (
	"fmt"

	"tidegate/codec"
	"tidegate/codec/riptide"
	"tidegate/internal/config"
	"tidegate/proxy"
)

// transcoding returns what makes the translators of a route's two directions.
func transcoding(r *config.Route) func(near, far codec.Protocol) proxy.Translator {
	schemas := make(map[uint16]riptide.Schema, len(r.Messages))
	for _, m := range r.Messages {
		schema, err := riptide.ParseSchema(m.Types)
		if err != nil {
			continue // types of a route without translation, which have not been checked
		}
		schemas[uint16(m.ID)] = schema
	}
	return func(near, far codec.Protocol) proxy.Translator {
		client, ok := near.(*riptide.Protocol)
		server, also := far.(*riptide.Protocol)
		if !ok || !also || client.Version() == server.Version() {
			return nil
		}
		drops := r.Undeclared == config.UndeclaredDrop
		return transcoder{riptide.NewTranscoder(client.Version(), server.Version(), schemas, drops), transcoded(len(schemas), drops)}
	}
}

// transcoded says what becomes of messages when the types of so many IDs are declared.
func transcoded(declared int, drops bool) string {
	others := "passed as they are"
	if drops {
		others = "dropped"
	}
	switch declared {
	case 0:
		return "all " + others + ": no [[route.message]] declares types"
	case 1:
		return "those of 1 message ID translated by their types, all others " + others
	}
	return fmt.Sprintf("those of %d message IDs translated by their types, all others %s", declared, others)
}

// transcoder is Riptide's Transcoder as the proxy wants it.
type transcoder struct {
	*riptide.Transcoder
	words string
}

// String is what becomes of messages.
func (t transcoder) String() string { return t.words }

var translations = [...]proxy.Translation{
	riptide.Transcoded: proxy.Translated, riptide.Passed: proxy.Passed,
	riptide.Dropped: proxy.Undeclared, riptide.Unfit: proxy.Untranslatable,
}

// Translate is Transcode in the proxy's words.
func (t transcoder) Translate(dst []byte, m codec.Message) (payload []byte, pad uint8, made proxy.Translation) {
	payload, pad, verdict := t.Transcode(dst, &m)
	return payload, pad, translations[verdict]
}
