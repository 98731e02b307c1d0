package codec

// Texter is a Protocol in whose goodbyes games read a text.
type Texter interface {
	Protocol
	// AppendText appends to b the Data of a Goodbye that says text. Pad as in Message.
	AppendText(b []byte, text string) (data []byte, pad uint8)
}
