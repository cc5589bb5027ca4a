package spec

import (
	"encoding/json"

	"github.com/invopop/jsonschema"
)

// JSONSchema returns a JSON Schema of job.yaml, for editors. It is made of what the parser accepts; what
// no schema can say (columns that must agree, zones) is left to the parser.
func JSONSchema() ([]byte, error) {
	s := objectSchema(jobKeys())
	s.Version = jsonschema.Version
	s.Title = "A Hindcast job"
	return json.MarshalIndent(s, "", "  ")
}

func objectSchema(keys []key) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema}
	for _, k := range keys {
		if k.kind == unbuilt {
			continue
		}
		v := valueSchema(k)
		v.Description = k.doc
		s.Properties.Set(k.name, v)
		if k.required {
			s.Required = append(s.Required, k.name)
		}
	}
	return s
}

func valueSchema(k key) *jsonschema.Schema {
	const durationForm = `^(P.+|[0-9]+(w|d|h|m|s|ms|us)([0-9]+(d|h|m|s|ms|us))*)$`
	switch k.kind {
	case mapping:
		return objectSchema(k.keys)
	case list:
		return &jsonschema.Schema{Type: "array", Items: objectSchema(k.keys), MinItems: new(uint64(1))}
	case texts:
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "string", MinLength: new(uint64(1))},
			{Type: "array", Items: &jsonschema.Schema{Type: "string", MinLength: new(uint64(1))}, MinItems: new(uint64(1))},
		}}
	case boolean:
		return &jsonschema.Schema{Type: "boolean"}
	case count:
		return &jsonschema.Schema{Type: "integer", Minimum: "0"}
	case share:
		return &jsonschema.Schema{Type: "string", Pattern: `^[0-9]+(\.[0-9]{1,2})?%$`}
	case duration:
		return &jsonschema.Schema{Type: "string", Pattern: durationForm}
	}
	s := &jsonschema.Schema{Type: "string", MinLength: new(uint64(1))}
	for _, e := range k.enum {
		s.Enum = append(s.Enum, e)
	}
	return s
}
