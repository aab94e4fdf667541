# Alveo cards: make -f alveo.mk PLATFORM=u50 (or u250). Needs Vitis 2023.2 or later.
#   TARGET=hw_emu builds for Vitis' own emulation; make -f alveo.mk alveo-configs writes the v++
#   configurations alone, which needs Python only.
PLATFORM ?= u50
TARGET ?= hw
PYTHON ?= python3
ALVEO_BUILD ?= build/$(PLATFORM)
ALVEO_HLS := ../hls
ALVEO_KERNELS := $(basename $(notdir $(wildcard $(ALVEO_HLS)/src/*_maxi.cpp)))
ALVEO_OBJECTS := $(ALVEO_KERNELS:%=$(ALVEO_BUILD)/%.xo)

.PHONY: alveo alveo-configs alveo-tools
alveo: $(ALVEO_BUILD)/actdma.xclbin

alveo-configs:
	$(PYTHON) alveo.py $(PLATFORM) $(ALVEO_BUILD)

alveo-tools:
	@command -v v++ >/dev/null || { echo "v++ is missing: source Vitis' settings64.sh first" >&2; exit 1; }

$(ALVEO_BUILD)/link.cfg: alveo.py alveo.toml
	$(PYTHON) alveo.py $(PLATFORM) $(ALVEO_BUILD)

$(ALVEO_OBJECTS): $(ALVEO_BUILD)/%.xo: $(ALVEO_HLS)/src/%.cpp $(ALVEO_HLS)/src/maxi_tops.hpp \
		$(wildcard $(ALVEO_HLS)/include/actdma/*.hpp) $(ALVEO_BUILD)/link.cfg | alveo-tools
	v++ -c --mode hls --config $(ALVEO_BUILD)/$*.cfg --work_dir $(ALVEO_BUILD)/$*
	@# Versions differ in whether v++ packages what it has compiled.
	test -f $@ || vitis-run --mode hls --package --config $(ALVEO_BUILD)/$*.cfg --work_dir $(ALVEO_BUILD)/$*

$(ALVEO_BUILD)/actdma.xclbin: $(ALVEO_OBJECTS)
	v++ -l -t $(TARGET) --config $(ALVEO_BUILD)/link.cfg --temp_dir $(ALVEO_BUILD)/link -o $@ $^
	cd $(ALVEO_BUILD) && sha256sum actdma.xclbin > actdma.sha256
