// Records of zve and ints from whole vectors, the same for every instruction set that has them.
// Included by its file in its namespace before record_loops.hpp, with ACTDMA_TARGET for the
// compiler's target and, besides the Vectors described there (`v` are all vectors of a group):
//
//     Vector                     of bytes, with the operators & | ^
//     broadcast<kLog2>           a Vector of equal elements of 1 << kLog2 bytes
//     add, subtract<kLog2>       element by element
//     Shift, make_shift          a number of bits, as the shifts want it
//     left, right<kLog2>         shift every element by a Shift
//     left, right<kLog2, kBy>    by a constant
//     range(group)               least and greatest element, as unsigned numbers
//     exponents<kExponent>(group)

template <int kLog2, int kExponent>
struct Zve : ZveRecord<kLog2, kExponent> {
  using R = ZveRecord<kLog2, kExponent>;
  using V = Vectors<kLog2>;

  ACTDMA_TARGET static Group plan(const V& group) {
    const auto [range, negative] = exponents<kExponent>(group);
    return {range.greatest, exponent_width(range.greatest - range.least), negative};
  }

  ACTDMA_TARGET static V fields(V group, const Group& common) {
    const Vector base = broadcast<kLog2>(common.base << R::kMantissa);
    const Shift shift = make_shift(common.sign);
    for (Vector& v : group.v) {
      const Vector distance = subtract<kLog2>(base, masked(v, R::kExponentField));
      const Vector sign = masked(right<kLog2, kExponent>(v), 1u << R::kMantissa);
      v = left<kLog2>(distance, shift) | sign | masked(v, R::kMantissaField);
    }
    return group;
  }

  ACTDMA_TARGET static V elements(V fields, const Group& common) {
    const Vector base = broadcast<kLog2>(common.base << R::kMantissa);
    const Shift shift = make_shift(common.sign);
    const Vector signs = broadcast<kLog2>(common.sign ? R::kSignField : 0);
    for (Vector& v : fields.v) {
      const Vector distance = masked(right<kLog2>(v, shift), R::kExponentField);
      const Vector exponent = masked(subtract<kLog2>(base, distance), R::kExponentField);
      const Vector sign = left<kLog2, kExponent>(v) & signs;
      v = exponent | sign | masked(v, R::kMantissaField);
    }
    return fields;
  }

 private:
  ACTDMA_TARGET static Vector masked(Vector v, uint32_t field) {
    return v & broadcast<kLog2>(field);
  }
};

template <int kLog2, bool kSigned>
struct Ints : IntsRecord<kLog2, kSigned> {
  using R = IntsRecord<kLog2, kSigned>;
  using V = Vectors<kLog2>;

  ACTDMA_TARGET static Group plan(V group) {
    for (Vector& v : group.v) v ^= broadcast<kLog2>(R::kFlip);
    const auto [least, greatest] = range(group);
    return R::group(least, greatest);
  }

  ACTDMA_TARGET static V fields(V group, const Group& common) {
    return sum(group, 0u - common.base);
  }

  ACTDMA_TARGET static V elements(V fields, const Group& common) {
    return sum(fields, common.base);
  }

 private:
  ACTDMA_TARGET static V sum(V group, uint32_t number) {
    const Vector other = broadcast<kLog2>(number);
    for (Vector& v : group.v) v = add<kLog2>(v, other);
    return group;
  }
};
