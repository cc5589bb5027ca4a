package tieredsrc

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
)

const idLen = 22 // characters of an id: base64 of 16 bytes, URL-safe, unpadded

// isID reports whether s is how Kafka writes an id.
func isID(s string) bool {
	if len(s) != idLen {
		return false
	}
	raw, err := base64.RawURLEncoding.DecodeString(s)
	return err == nil && len(raw) == 16
}

// name is what an object's key says.
type name struct {
	topic, topicID string
	partition      int32
	base           int64
	id             string // of the segment
	part           string // what the object is of the segment, with a dot: .log, .rsm-manifest
	stem           string // the key without part
}

// parseName reads a key without its prefix. Topic names and ids may contain dashes, so names are taken apart from the right, by
// the ids' width:
//
//	aiven  <topic>-<topic id>/<partition>/<base offset>-<segment id><part>
//	local  <topic>-<partition>-<topic id>/<base offset>-<segment id><part>
func parseName(layout Layout, key string) (name, bool) {
	dir, file, ok := cutLast(key, "/")
	n := name{}
	if !ok || !n.parseFile(file) {
		return name{}, false
	}
	n.stem = key[:len(key)-len(n.part)]
	partition := ""
	if layout == Aiven {
		if dir, partition, ok = cutLast(dir, "/"); !ok {
			return name{}, false
		}
	}
	if n.topic, n.topicID, ok = cutID(dir); !ok {
		return name{}, false
	}
	if layout == Local {
		if n.topic, partition, ok = cutLast(n.topic, "-"); !ok {
			return name{}, false
		}
	}
	p, ok := number(partition, math.MaxInt32)
	n.partition = int32(p)
	return n, ok && n.topic != "" && !strings.Contains(n.topic, "/") && strconv.FormatInt(p, 10) == partition
}

func (n *name) parseFile(file string) bool {
	dot := strings.IndexByte(file, '.')
	if dot < 0 {
		return false
	}
	base, id, ok := cutID(file[:dot])
	if !ok {
		return false
	}
	n.id, n.part = id, file[dot:]
	n.base, ok = number(base, math.MaxInt64)
	return ok
}

// cutID cuts "-<id>" off the end.
func cutID(s string) (before, id string, ok bool) {
	at := len(s) - idLen
	if at < 1 || s[at-1] != '-' || !isID(s[at:]) {
		return "", "", false
	}
	return s[:at-1], s[at:], true
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+len(sep):], true
}

// number reads decimal digits, of which there may be zeros in front.
func number(s string, most int64) (int64, bool) {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n <= most
}
