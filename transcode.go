package main

import (
	"tidegate/codec"
	"tidegate/codec/riptide"
	"tidegate/config"
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
		from, ok := dialects[near.Name()]
		to, also := dialects[far.Name()]
		if !ok || !also || from == to {
			return nil
		}
		return transcoder{riptide.NewTranscoder(from, to, schemas, r.Undeclared == config.UndeclaredDrop)}
	}
}

// transcoder is Riptide's Transcoder as the proxy wants it.
type transcoder struct{ *riptide.Transcoder }

var translations = [...]proxy.Translation{
	riptide.Transcoded: proxy.Translated, riptide.Passed: proxy.Passed,
	riptide.Dropped: proxy.Undeclared, riptide.Unfit: proxy.Untranslatable,
}

// Translate is Transcode in the proxy's words.
func (t transcoder) Translate(dst []byte, m codec.Message) (payload []byte, pad uint8, made proxy.Translation) {
	payload, pad, verdict := t.Transcode(dst, &m)
	return payload, pad, translations[verdict]
}
