package blob

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxKey is what S3 allows, in bytes.
const maxKey = 1024

// CheckKey reports what keeps key from being used on every store. Drivers call
// it first, so that a key that works on one store works on all.
func CheckKey(key string) error {
	why := ""
	switch {
	case key == "":
		why = "it is empty"
	case len(key) > maxKey:
		why = fmt.Sprintf("it has %d bytes, at most %d are allowed", len(key), maxKey)
	case !utf8.ValidString(key):
		why = "it is not UTF-8"
	case strings.ContainsFunc(key, unicode.IsControl):
		why = "it has a control character"
	case key[0] == '/' || key[len(key)-1] == '/':
		why = "it begins or ends with a slash"
	default:
		for elem := range strings.SplitSeq(key, "/") {
			if elem == "" || elem == "." || elem == ".." {
				why = fmt.Sprintf("it has the path element %q", elem)
				break
			}
		}
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("key %q cannot be used: %s", key, why)
}
