package formats

import (
	"fmt"
	"strings"

	"github.com/zeebo/xxh3"
)

// seal puts the right checksum into a manifest's text, where the text has a place for it.
func seal(text string) []byte {
	body, ok := strings.CutSuffix(text, manifestEnd)
	if !ok || len(body) < 16+len(manifestChecksum) {
		return []byte(text)
	}
	body = body[:len(body)-16-len(manifestChecksum)]
	return []byte(body + manifestChecksum + formatHash(xxh3.HashString(body)) + manifestEnd)
}

// asContent wraps a content in a manifest that is right in everything else.
func asContent(content []byte) []byte {
	body := fmt.Sprintf("{\n  \"format\": [1, 0],\n  \"requires\": [],\n  \"id\": \"%x\",\n  \"generation\": 1,\n  "+
		"\"provenance\": {},\n  \"content\": %s,\n", xxh3.Hash128(content).Bytes(), content)
	return []byte(body + manifestChecksum + formatHash(xxh3.HashString(body)) + manifestEnd)
}
