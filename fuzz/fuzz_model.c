/* model.json of torch.export: its grammar (read whole, skipped and read again from a raw slice must
 * agree), then the program, through an archive that has weights for it. */
#include "fuzz.h"

#include "formats/json.h"

static void read_value(session *s, json *j)
{
  str key;
  session_enter(s);
  switch (json_peek(j)) {
  case JSON_NULL:
    json_null(j);
    break;
  case JSON_BOOL:
    (void)json_bool(j);
    break;
  case JSON_INT:
  case JSON_FLOAT:
    (void)json_double(j);
    break;
  case JSON_STRING:
    (void)json_string(j);
    break;
  case JSON_ARRAY:
    for (json_begin_array(j); json_next_item(j);)
      read_value(s, j);
    break;
  case JSON_OBJECT:
    json_begin_object(j);
    while (json_next_key(j, &key))
      read_value(s, j);
    break;
  }
  session_leave(s);
}

static void read_json(session *s, str text)
{
  input in = {"fuzz", text};
  json j, again;
  json_init(&j, s, &in);
  str raw = json_raw(&j); /* the grammar */
  json_end(&j);
  json_init_at(&again, s, &in, raw);
  read_value(s, &again);
  json_end(&again);
}

static const char weights[] = "{\"config\": {\"w\": {\"path_name\": \"weight_0\", \"is_param\": "
                              "true, \"use_pickle\": false, \"tensor_meta\": "
                              "{\"dtype\": 7, \"sizes\": [{\"as_int\": 2}, {\"as_int\": 4}], "
                              "\"requires_grad\": true, \"device\": {\"type\": \"cpu\", "
                              "\"index\": null}, \"strides\": [{\"as_int\": 4}, {\"as_int\": 1}], "
                              "\"storage_offset\": {\"as_int\": 0}, \"layout\": 7}}}}";
static const char floats[64] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde";

static void body(session *s, str text)
{
  const fuzz_record defaults[] = {
    {"archive_format", STR("pt2")},
    {"byteorder", STR("little")},
    {"archive_version", STR("0")},
    {"data/weights/model_weights_config.json", {weights, sizeof weights - 1}},
    {"data/weights/weight_0", {floats, sizeof floats}},
    {"data/weights/weight_1", {floats, sizeof floats}},
    {"data/constants/tensor_0", {floats, sizeof floats}}};

  read_json(s, fuzz_main(text));
  str packed = fuzz_pack(s, "models/model.json", text, defaults, COUNT_OF(defaults));
  fuzz_use_module(s, packed, "fuzz.pt2", false, false);
}

int fuzz_model(const uint8_t *data, size_t n)
{
  fuzz_session(data, n, body);
  return 0;
}
