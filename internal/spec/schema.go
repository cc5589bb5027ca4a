package spec

import (
	"bytes"
	"encoding/json"
)

// schema is what job.yaml needs of JSON Schema, draft 2020-12.
type schema struct {
	Version              string     `json:"$schema,omitempty"`
	AnyOf                []*schema  `json:"anyOf,omitempty"`
	Items                *schema    `json:"items,omitempty"`
	Properties           properties `json:"properties,omitempty"`
	AdditionalProperties any        `json:"additionalProperties,omitempty"`
	Type                 string     `json:"type,omitempty"`
	Enum                 []string   `json:"enum,omitempty"`
	Minimum              *int       `json:"minimum,omitempty"`
	MinLength            int        `json:"minLength,omitempty"`
	Pattern              string     `json:"pattern,omitempty"`
	MinItems             int        `json:"minItems,omitempty"`
	Required             []string   `json:"required,omitempty"`
	Title                string     `json:"title,omitempty"`
	Description          string     `json:"description,omitempty"`
}

// properties are members in the order of the keys: that is the order in which they are explained.
type properties []property

type property struct {
	name  string
	value *schema
}

// MarshalJSON writes an object.
func (p properties) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, m := range p {
		b.WriteByte("{,"[min(i, 1)])
		for j, v := range []any{m.name, m.value} {
			text, err := json.Marshal(v)
			if err != nil {
				return nil, err
			}
			if j > 0 {
				b.WriteByte(':')
			}
			b.Write(text)
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// JSONSchema returns a JSON Schema of job.yaml, for editors. It is made of what the parser accepts; what
// no schema can say (columns that must agree, zones) is left to the parser.
func JSONSchema() ([]byte, error) {
	s := objectSchema(jobKeys())
	s.Version = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "A Hindcast job"
	return json.MarshalIndent(s, "", "  ")
}

func objectSchema(keys []key) *schema {
	s := &schema{Type: "object", AdditionalProperties: new(bool)}
	for _, k := range keys {
		if k.kind == unbuilt {
			continue
		}
		v := valueSchema(k)
		v.Description = k.doc
		s.Properties = append(s.Properties, property{k.name, v})
		if k.required {
			s.Required = append(s.Required, k.name)
		}
	}
	return s
}

func valueSchema(k key) *schema {
	const durationForm = `^(P.+|[0-9]+(w|d|h|m|s|ms|us)([0-9]+(d|h|m|s|ms|us))*)$`
	switch k.kind {
	case mapping:
		return objectSchema(k.keys)
	case named:
		return &schema{Type: "object", AdditionalProperties: objectSchema(k.keys)}
	case pairs:
		return &schema{Type: "object", AdditionalProperties: &schema{AnyOf: []*schema{{Type: "string"}, {Type: "number"}, {Type: "boolean"}}}}
	case list:
		return &schema{Type: "array", Items: objectSchema(k.keys), MinItems: 1}
	case texts:
		return &schema{AnyOf: []*schema{
			{Type: "string", MinLength: 1},
			{Type: "array", Items: &schema{Type: "string", MinLength: 1}, MinItems: 1},
		}}
	case boolean:
		return &schema{Type: "boolean"}
	case count:
		return &schema{Type: "integer", Minimum: new(int)}
	case share:
		return &schema{Type: "string", Pattern: `^[0-9]+(\.[0-9]{1,2})?%$`}
	case duration:
		return &schema{Type: "string", Pattern: durationForm}
	case size:
		return &schema{Type: "string", Pattern: `^[0-9]+(B|[kMGT]B|[KMGT]iB)$`}
	case secret:
		return &schema{Type: "string", Pattern: variable.String()}
	}
	return &schema{Type: "string", MinLength: 1, Enum: k.enum}
}
