/* tensor/items.h -- loops that move elements of any type, one for each element size. */
#ifndef RUSH_TENSOR_ITEMS_H
#define RUSH_TENSOR_ITEMS_H

#include <stdint.h>

typedef struct bytes16 {
  uint64_t a, b;
} bytes16;

/* Expand LOOP(type) for the unsigned type of `item` bytes. */
#define BY_ITEM(item, LOOP) \
  switch (item) {           \
  case 1:                   \
    LOOP(uint8_t) break;    \
  case 2:                   \
    LOOP(uint16_t) break;   \
  case 4:                   \
    LOOP(uint32_t) break;   \
  case 8:                   \
    LOOP(uint64_t) break;   \
  case 16:                  \
    LOOP(bytes16) break;    \
  }

#endif
