// The functions of RecordKernels, from what an instruction set does with one group. Included by its
// file in its namespace, with ACTDMA_TARGET for the compiler's target. For every kind of record
// there is a class like ZveRecord or IntsRecord with
//
//     V         a group's elements, or the fields that its bit planes hold
//     plan      elements to Group
//     fields    elements and Group to fields: those that are to be bit planes are the lowest bits
//     elements  the inverse
//
// and V has load(from, count): the first `count` elements, the others like the first; write(to);
// clear_from(count): zeros from there on; write_planes(count, to), which returns their end and may
// write a vector more; read_planes(count, from), which may read a vector more.

template <class Record>
ACTDMA_TARGET uint32_t plan(const uint8_t* elements, size_t count, Group* groups) {
  using V = typename Record::V;
  uint32_t words = 0;
  for (size_t done = 0; done < count; done += V::kGroup) {
    const size_t there = count - done < V::kGroup ? count - done : V::kGroup;
    const Group group = Record::plan(V::load(elements + (done << Record::kLog2), there));
    words += Record::has_base(group) + Record::planes(group) * (V::kGroup / 32);
    group.write(groups++);
  }
  return words;
}

template <class Record>
ACTDMA_TARGET uint8_t* pack(const uint8_t* elements, size_t count, const Group* groups,
                            uint8_t* records) {
  using V = typename Record::V;
  for (size_t done = 0; done < count; done += V::kGroup) {
    const Group group = *groups++;
    const size_t there = count - done < V::kGroup ? count - done : V::kGroup;
    V fields = Record::fields(V::load(elements + (done << Record::kLog2), there), group);
    if (there < V::kGroup) fields.clear_from(there);
    if (Record::has_base(group)) {
      store(records, group.base);
      records += 4;
    }
    records = fields.write_planes(Record::planes(group), records);
  }
  return records;
}

template <class Record>
ACTDMA_TARGET void unpack(const uint8_t* records, const Group* groups, size_t count,
                          uint8_t* elements) {
  using V = typename Record::V;
  for (size_t g = 0; g < count; g++) {
    Group group = groups[g];
    if (Record::has_base(group)) {
      group.base = load<uint32_t>(records);
      records += 4;
    }
    const uint32_t planes = Record::planes(group);
    const V fields = V::read_planes(planes, records);
    records += planes * V::kGroup / 8;
    Record::elements(fields, group).write(elements + (g * V::kGroup << Record::kLog2));
  }
}

template <class Record>
constexpr RecordKernels kRecord{plan<Record>, pack<Record>, unpack<Record>};

#define ACTDMA_RECORDS                                          \
  kRecord<Zve<1, 5>>, kRecord<Zve<1, 8>>, kRecord<Zve<2, 8>>, { \
    {kRecord<Ints<0, false>>, kRecord<Ints<0, true>>},          \
        {kRecord<Ints<1, false>>, kRecord<Ints<1, true>>}, {    \
      kRecord<Ints<2, false>>, kRecord<Ints<2, true>>           \
    }                                                           \
  }
