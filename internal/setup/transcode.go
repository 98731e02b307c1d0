package setup

import (
	"fmt"

	"tidegate/codec"
	"tidegate/codec/riptide"
	"tidegate/internal/config"
	"tidegate/internal/policy"
	"tidegate/proxy/bridge"
)

// transcoding returns a function that makes the translators of a route's two directions.
func transcoding(r *config.Route) func(near, far codec.Protocol) bridge.Translator {
	schemas := make(map[uint16]riptide.Schema, len(r.Messages))
	for _, m := range r.Messages {
		schema, err := riptide.ParseSchema(m.Types)
		if err != nil {
			continue // the types of a route without translation are not checked
		}
		schemas[uint16(m.ID)] = schema
	}
	return func(near, far codec.Protocol) bridge.Translator {
		client, ok := near.(*riptide.Protocol)
		server, also := far.(*riptide.Protocol)
		if !ok || !also || client.Version() == server.Version() {
			return nil
		}
		drops := !r.Undeclared.Is(policy.UnmappedPasses)
		transcode := riptide.NewTranscoder(client.Version(), server.Version(), schemas, drops)
		return transcoder{transcode, describeTranslation(len(schemas), drops)}
	}
}

// describeTranslation describes the treatment of messages when the types of some IDs are declared.
func describeTranslation(declared int, drops bool) string {
	others := "passed as they are"
	if drops {
		others = "dropped"
	}
	switch declared {
	case 0:
		return "all messages " + others + ": no [[route.message]] declares types"
	case 1:
		return "messages of 1 declared ID translated, all others " + others
	}
	return fmt.Sprintf("messages of %d declared IDs translated, all others %s", declared, others)
}

// transcoder adapts riptide.Transcoder to bridge.Translator.
type transcoder struct {
	*riptide.Transcoder
	description string
}

// String describes the treatment of messages.
func (t transcoder) String() string { return t.description }

var translations = [...]bridge.Translation{
	riptide.Transcoded: bridge.Translated, riptide.Passed: bridge.Passed,
	riptide.Dropped: bridge.Undeclared, riptide.Unfit: bridge.Untranslatable,
}

// Translate converts one message.
func (t transcoder) Translate(dst []byte, m codec.Message) (payload []byte, pad uint8, made bridge.Translation) {
	payload, pad, verdict := t.Transcode(dst, &m)
	return payload, pad, translations[verdict]
}
